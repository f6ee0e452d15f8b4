import type { Config } from './config.ts';

/** A bucket of an S3-compatible store, with any prefix of the objects' names in its URL. */
interface Bucket {
  url: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/** The bucket for attachments; undefined: they are in Postgres. */
export function s3Of(
  config: Pick<Config, 's3Url' | 's3Region' | 's3AccessKeyId' | 's3SecretAccessKey'>,
): Bucket | undefined {
  const { s3Url, s3Region: region, s3AccessKeyId: accessKeyId, s3SecretAccessKey: secretAccessKey } = config;
  if (s3Url === undefined || accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  return { url: s3Url, region, accessKeyId, secretAccessKey };
}
