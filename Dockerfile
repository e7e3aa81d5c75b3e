# pellucid serve on a CPU. Build it in the root of a checkout:
#
#     docker build -t pellucid .
#     docker run --rm -p 127.0.0.1:7878:7878 -v "$PWD/model:/models/model:ro" pellucid /models/model
#
# A container must listen to all addresses, so that what decides who can reach it is -p: here, this machine alone.
# For others give it a key: -e PELLUCID_API_KEYS=..., and put a proxy with TLS in front.

FROM python:3.11-slim AS build
WORKDIR /build
# The CPU build of torch, from PyTorch's own index: a fifth of the size of the other.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/pellucid \
    && /opt/pellucid/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" "torch>=2.10" \
    && /opt/pellucid/bin/pip install --no-cache-dir ".[serve,detect]"

FROM python:3.11-slim
COPY --from=build /opt/pellucid /opt/pellucid
RUN useradd --create-home --uid 10001 pellucid
USER 10001
ENV PATH=/opt/pellucid/bin:$PATH GOMP_SPINCOUNT=1000 PYTHONUNBUFFERED=1
EXPOSE 7878
HEALTHCHECK --interval=30s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7878/ready', timeout=2)"]
# SIGTERM: what has been asked is answered first.
STOPSIGNAL SIGTERM
ENTRYPOINT ["pellucid", "serve", "--host", "0.0.0.0", "--no-page"]
CMD ["--help"]
