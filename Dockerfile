# One image for migrate, worker and host; docker-compose.yml sets the command of each container.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY tools/node/package.json tools/node/
RUN npm ci --ignore-scripts
COPY . .
RUN node tools/scripts/build-package.ts

FROM node:24.21.0-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY tools/node/package.json tools/node/
# Optional packages are Node for the repository's own scripts.
RUN npm ci --omit=dev --omit=optional --ignore-scripts

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production
ENV PERDURE_DIR=/data
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules/
COPY --from=build /app/dist ./dist/
COPY package.json LICENSE ./
# A new volume gets the owner of the folder that it is mounted on.
RUN install -d -o 1000 -g 1000 /data
# The user `node` of the base image, by number, so that a policy against root can verify it.
USER 1000:1000
EXPOSE 8787
CMD ["node", "dist/dev/bin/host.js"]
