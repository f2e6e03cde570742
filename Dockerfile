# What runs needs no build step: Node strips the types.
FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts

FROM node:24-slim
WORKDIR /app
RUN install -d -o node -g node -m 700 /data && install -d -o node -g node /app/.compile-cache
COPY package.json LICENSE ./
COPY --from=packages /app/node_modules node_modules
COPY openapi openapi
COPY routes routes
COPY src src

ENV NODE_ENV=production \
    HOST=0.0.0.0 \
    PORT=8080 \
    DATABASE_URL=sqlite:/data/subagentd.db \
    NODE_COMPILE_CACHE=/app/.compile-cache \
    MALLOC_ARENA_MAX=1
USER node
# Loads every module once, as the user that will run them (the cache is kept by user): the start compiles nothing.
RUN node --max-semi-space-size=4 -e "import('/app/src/app.ts').then(() => process.exit())"

VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.PORT + '/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--max-semi-space-size=4", "src/main.ts"]
