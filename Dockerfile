# syntax=docker/dockerfile:1
# The gateway, the worker and the migration, by the command: docker run IMAGE serve | worker | migrate
# Pin the base by its digest where you build: --build-arg PYTHON_IMAGE=python:3.11-slim@sha256:…
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS wheels
WORKDIR /source
COPY . .
# The model's weights are fetched by hash and become a part of the wheel; the running image fetches nothing.
RUN sh tools/setup.sh && .venv/bin/uv build --quiet --wheel --out-dir /wheels . \
    && .venv/bin/uv build --quiet --wheel --out-dir /wheels packages/minilm

FROM ${PYTHON_IMAGE} AS installed
COPY deploy/requirements.txt deploy/install.sh /deploy/
COPY --from=wheels /wheels /wheels
RUN sh /deploy/install.sh /opt/threadkeep /wheels python3

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="threadkeep" org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 threadkeep \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin threadkeep \
    && install -d -o 10001 -g 10001 -m 0700 /data
COPY --from=installed /opt/threadkeep /opt/threadkeep
ENV PATH=/opt/threadkeep/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    THREADKEEP_DATA_DIR=/data \
    THREADKEEP_LOG_FORMAT=json
USER 10001:10001
WORKDIR /data
# Only SQLite needs it; with a server the root file system may be read-only without any volume.
VOLUME ["/data"]
EXPOSE 8000 9464
STOPSIGNAL SIGTERM
# A worker has no port; run it with --no-healthcheck, or watch its metrics.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["threadkeep"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
