# The image of the pods of `psclust manifest`, and one for `psclust up --kubernetes`: a Python with TensorFlow and psclust, and your program in /app. In the checkout's root:
#
#     docker build -f deploy/kubernetes.Dockerfile -t psclust-task .
#
# then a Dockerfile beside your program (docs/kubernetes.md):
#
#     FROM psclust-task
#     COPY . /app

FROM debian:bookworm-slim AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev python3-dev python3-pip \
    && rm -rf /var/lib/apt/lists/*
COPY setup.py pyproject.toml README.md /src/
COPY psclust /src/psclust
RUN python3 -m pip wheel --no-deps --wheel-dir /wheel /src

FROM debian:bookworm-slim
# Which TensorFlow, such as ==2.16.2; all hosts of a cluster have the same.
ARG TENSORFLOW=""
# Further packages of your program, such as scikit-learn for psclust's examples.
ARG PACKAGES=""
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 psclust \
    && install -d -o psclust /app
COPY --from=build /wheel /wheel
COPY deploy/on-host /usr/local/bin/
RUN echo "tensorflow$TENSORFLOW" >/wheel/versions \
    && on-host install /opt/psclust python3 /wheel/psclust-*.whl --no-cache-dir -c /wheel/versions \
    && { [ -z "$PACKAGES" ] || /opt/psclust/bin/python -m pip install --no-cache-dir -c /wheel/versions $PACKAGES; }
ENV PATH=/opt/psclust/bin:$PATH
# A number, so that Kubernetes can tell that it is not root.
USER 1000
WORKDIR /app
