export default { serverExternalPackages: ['perdure'] };
