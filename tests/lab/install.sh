# Python environments of the lab; does nothing that is already done. Debian packages are listed in packages.txt
# (`cargo xtask lab up` installs them where it may).
. "$(dirname "${BASH_SOURCE[0]}")/infra.sh"
dpkg -s $(cat $LAB/packages.txt) >/dev/null 2>$OSLAB/log/dpkg.log || {
  fail "Debian packages are missing; run: apt-get install --no-install-recommends $(tr '\n' ' ' <$LAB/packages.txt)" $OSLAB/log/dpkg.log; exit 1; }
# the interpreter: 3.11 from pyenv if there is one, else from PATH (Debian 12's own python3 is 3.11), else what is there
py() { ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.11.*/bin/python 2>/dev/null | tail -1 | grep . || ls /usr/bin/python3.11 2>/dev/null || command -v python3; }
PY=$(py)
export UV_CACHE_DIR=${UV_CACHE_DIR:-$OSLAB/uvcache} UV_PYTHON_DOWNLOADS=never UV_HTTP_TIMEOUT=120 SSL_CERT_FILE=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
log=$OSLAB/log/python.log
twice() { "$@" >>$log 2>&1 || { echo "  once more: $1 $2 $3"; "$@" >>$log 2>&1; } || { fail "$*" $log; exit 1; }; }
[ -x $OSLAB/uvenv/bin/uv ] || { echo "  uv"; "$PY" -m venv $OSLAB/uvenv || exit 1; twice timeout 600 $OSLAB/uvenv/bin/pip -q install uv; }
venv() { # venv DIR PACKAGES...: made once for each list of packages and constraints
  local d=$1 want; shift
  want=$(cat $LAB/constraints-2025.1.txt - <<<"$*" | sha256sum)
  [ "$(cat $d/.done 2>/dev/null)" = "$want" ] && return
  echo "  $(basename $d)"
  [ -x $d/bin/python ] || twice timeout 300 $OSLAB/uvenv/bin/uv venv -q --seed --allow-existing --python "$PY" $d
  twice timeout 1800 $OSLAB/uvenv/bin/uv pip install -q --python $d/bin/python -c $LAB/constraints-2025.1.txt "$@" 'setuptools<80'
  echo "$want" >$d/.done
}
# magnum is here for its own tools (magnum-db-manage on a database of ours); its services are never started
venv $VENV PyMySQL python-memcached pymemcache uwsgi keystone==27.1.0 openstack-heat==24.1.2 magnum==20.0.2 glance==30.2.0 \
  openstack-placement==13.0.0 nova==31.3.1 neutron==26.0.6 octavia==16.1.0 barbican==20.0.0 cinder==26.3.0 \
  designate==20.0.2
venv $CLIENT python-openstackclient python-heatclient python-magnumclient python-octaviaclient python-barbicanclient \
  python-designateclient
venv $TEMPEST tempest==47.0.0 magnum-tempest-plugin==2.12.0
# octavia_vip_driver.py as an installed entry point of the service environment
d=$($VENV/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && mkdir -p $d/oslab_octavia-1.dist-info &&
cp $LAB/octavia_vip_driver.py $d/ && printf 'Metadata-Version: 2.1\nName: oslab-octavia\nVersion: 1\n' >$d/oslab_octavia-1.dist-info/METADATA &&
printf '[octavia.network.drivers]\nlab_vip_only = octavia_vip_driver:VipOnlyDriver\n' >$d/oslab_octavia-1.dist-info/entry_points.txt
