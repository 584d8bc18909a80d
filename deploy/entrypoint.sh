#!/bin/sh
# numba takes compiled kernels only from a folder that it can write, and the image need not be one: the root
# file system may be read-only, the user any. So every start copies the image's kernels (3 MB) below /tmp.
set -eu
kernels="${TMPDIR:-/tmp}/streamnb-kernels"
if rm -rf "$kernels" 2>/dev/null && cp -R /opt/streamnb/kernels "$kernels" 2>/dev/null; then
    export NUMBA_CACHE_DIR="$kernels"
else
    echo "streamnb: no kernels below /tmp, so they are compiled at every start; mount a tmpfs there" >&2
fi
exec streamnb "$@"
