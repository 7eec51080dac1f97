#!/usr/bin/env bash
# From a fresh Debian 12 to a training run on a TPU VM: installs, builds, starts the service, makes
# `my-first-tpu` (v2-8, us-central1-a), trains in it over ssh and shows the result.
#   scripts/quickstart.sh          cleans up after itself
#   scripts/quickstart.sh --keep   leaves the service and the TPU VM running
. "$(dirname "$0")/lib.sh"

keep=
case ${1:-} in
  "") ;;
  --keep) keep=yes ;;
  *) die "unknown argument $1; the only one is --keep" ;;
esac

data=/var/lib/torus-quickstart  # its base image is kept, so that the next run is quick
node=my-first-tpu
zone=us-central1-a
torus=build/release/torus
export TORUS_ENDPOINT=http://127.0.0.1:7470 CLOUDSDK_CORE_PROJECT=quickstart
service=

vm() { local verb=$1; shift; "$torus" tpu-vm "$verb" "$node" --zone="$zone" "$@"; }
on_vm() { vm ssh --ssh-key-file="$PWD/build/quickstart/key" --quiet --command="$1"; }
answers() { curl -sf "$TORUS_ENDPOINT/v2/projects/quickstart/locations" >/dev/null; }

clean_up() {
  local status=$?
  [ -n "$keep" ] && exit $status
  say "cleaning up (--keep leaves the service and the TPU VM running)"
  if answers; then vm delete --quiet >/dev/null 2>&1 || true; fi
  [ -z "$service" ] || as_root kill "$service" 2>/dev/null || true
  exit $status
}

scripts/deps.sh
apt_install curl
scripts/build.sh release torus tpu
trap clean_up EXIT

if answers; then
  say "a service answers at $TORUS_ENDPOINT already: using it"
else
  say "starting torus serve"
  mkdir -p build/log build/quickstart
  as_root "$torus" serve --backend=local --data-dir="$data" 2>build/log/serve.log &
  for _ in $(seq 100); do answers && break; sleep 0.1; done
  answers || { cat build/log/serve.log >&2; die "the service did not start (build/log/serve.log)"; }
  service=$(as_root cat "$data/lock")
fi

if vm describe >/dev/null 2>&1; then
  say "the TPU VM $node is there already: using it"
else
  say "making the TPU VM $node: v2-8 in $zone (the first makes a base image, about half a minute)"
  vm create --accelerator-type=v2-8 --version=tpu-ubuntu2204-base
fi

say "installing JAX and the Fashion-MNIST data set in the TPU VM"
on_vm 'pip install -q --no-warn-script-location jax==0.10.2 &&
       { dpkg -s dataset-fashion-mnist || { sudo apt-get -qq update &&
         sudo apt-get -qq install -y --no-install-recommends dataset-fashion-mnist; }; } >/dev/null 2>&1'

say "training on it"
"$torus" tpu-vm scp examples/mnist_jax.py examples/fashion_mnist.py "$node:" --zone="$zone" --quiet \
  --ssh-key-file="$PWD/build/quickstart/key"
on_vm 'python3 mnist_jax.py'

cat <<TEXT

That was a TPU VM of your own: JAX saw eight TPU v2 cores and trained on all of them.
Try next:
  scripts/quickstart.sh --keep                    and leave it running, then
  export TORUS_ENDPOINT=$TORUS_ENDPOINT PATH=\$PWD/build/release:\$PATH
  torus tpu-vm ssh $node --zone=$zone --project=quickstart     log in
  eval "\$(torus env --project=quickstart)" && gcloud compute tpus tpu-vm list --zone=$zone
  TPU_LIBRARY_PATH=build/release/libtpu.so python3 train.py    a TPU with no service at all
TEXT
