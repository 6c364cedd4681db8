#!/usr/bin/env bash
# Fetches the suites of AMQP clients, and what they run with, into the folder that is named. What is
# there already is not fetched again. All comes from package registries by their own clients.
set -euo pipefail

folder=$(mkdir -p "$1" && cd "$1" && pwd)
suites=$(cd "$(dirname "$0")/../tests/interop/suites" && pwd)
python=${PYTHON:-python3}

for tool in node npm go java javac mvn apt-get openssl; do
    command -v "$tool" >/dev/null || { echo "peers-amqp: there is no $tool" >&2; exit 1; }
done
cd "$folder"

if ! cmp --silent python/.ready "$suites/requirements.txt"; then
    echo "peers-amqp: Python's clients, and what their tests run with"
    "$python" -m venv --clear python
    python/bin/python -m pip install --quiet --only-binary :all: -r "$suites/requirements.txt"
    cp "$suites/requirements.txt" python/.ready
fi
for package in aio-pika==10.2.1 aiormq==7.2.4 amqp==5.4.2 kombu==5.7.0 celery==5.7.0; do
    name=${package%%==*} tree=${package/==/-}
    tree=${tree//aio-pika/aio_pika}
    [ -e "$tree" ] && continue
    echo "peers-amqp: $tree"
    python/bin/python -m pip download --quiet --no-deps --no-binary "$name" --dest packages "$package"
    tar -xzf "packages/$tree.tar.gz"
done

if [ ! -e redis/.ready ]; then
    echo "peers-amqp: Redis, in which Celery's tests count what their tasks did"
    mkdir -p packages/redis redis
    (cd packages/redis && apt-get download --quiet redis-server redis-tools libjemalloc2 liblzf1 >/dev/null)
    for package in packages/redis/*.deb; do dpkg -x "$package" redis; done
    touch redis/.ready
fi

if [ ! -e amqplib-2.0.1 ]; then
    echo "peers-amqp: amqplib-2.0.1, the last whose package has its tests"
    (cd packages && npm pack --silent amqplib@2.0.1 >/dev/null)
    mkdir amqplib.part && tar -xzf packages/amqplib-2.0.1.tgz --strip-components 1 -C amqplib.part
    npm install --silent --no-save --ignore-scripts --prefix node claire@0.4.1 >/dev/null
    mv amqplib.part amqplib-2.0.1
fi

if [ ! -e amqp091-go-1.16.0 ]; then
    echo "peers-amqp: amqp091-go-1.16.0"
    from=$(cd / && go mod download -json github.com/rabbitmq/amqp091-go@v1.16.0 | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    cp -r "$from" amqp091-go.part && chmod -R u+w amqp091-go.part
    mv amqp091-go.part amqp091-go-1.16.0
fi

if [ ! -e java/.ready ]; then
    echo "peers-amqp: the tests of the Java client 5.0.0, which Debian has the source of"
    mkdir -p apt/lists/partial apt/cache java/classes
    sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >apt/own.sources
    printf '%s\n' "Dir::Etc::sourcelist \"$folder/apt/own.sources\";" 'Dir::Etc::sourceparts "-";' \
        "Dir::State::lists \"$folder/apt/lists\";" "Dir::Cache \"$folder/apt/cache\";" >apt/apt.conf
    APT_CONFIG=$folder/apt/apt.conf apt-get -qq update
    # The source has a second part, which is not needed and which some mirrors lack.
    (cd packages && APT_CONFIG=$folder/apt/apt.conf apt-get -qq source --tar-only --download-only rabbitmq-java-client) ||
        [ -s packages/rabbitmq-java-client_5.0.0.orig.tar.gz ]
    tar -xzf packages/rabbitmq-java-client_5.0.0.orig.tar.gz
    mvn --batch-mode --quiet --file "$suites/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$folder/java/lib"
    find rabbitmq-java-client-5.0.0/src/test/java -name '*.java' >java/sources
    javac -nowarn -encoding UTF-8 -cp "java/lib/*" -d java/classes @java/sources
    touch java/.ready
fi
