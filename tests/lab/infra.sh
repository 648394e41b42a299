# Private MariaDB, RabbitMQ and memcached: functions start_*/stop_*, and how any process is started, awaited and stopped.
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
mkdir -p $OSLAB/{log,run,state,etc,home,data}
chmod 755 $OSLAB $OSLAB/{log,run,data}

fail() { # fail TEXT [LOG]: says what went wrong, with the end of a log
  echo "lab: $1" >&2
  [ -z "${2:-}" ] || { echo "--- last lines of $2" >&2; tail -n 40 "$2" >&2; }
  return 1
}
started() { sed 's/.*) //' /proc/$1/stat 2>/dev/null | cut -d' ' -f20; } # start time of a pid, to know it again
# alive NAME: the process we started still runs (pids are used again, after a reboot at the latest)
alive() {
  local p t; { read -r p t <$OSLAB/run/$1.pid; } 2>/dev/null && [ -n "$t" ] && [ "$(started $p)" = "$t" ]
}
pid() { cut -d' ' -f1 $OSLAB/run/$1.pid; }
# spawn NAME CMD...: in the background, in a session of its own, pid in run/NAME.pid, output in log/NAME.log
spawn() {
  local n=$1; shift
  alive $n && return 0
  setsid "$@" >>$OSLAB/log/$n.log 2>&1 </dev/null &
  echo $! $(started $!) >$OSLAB/run/$n.pid; echo "  started $n ($!)"
}
# stop NAME [SECONDS]: TERM, wait (20 s), then KILL that process group
stop() {
  local p i
  [ -f $OSLAB/run/$1.pid ] || return 0
  if alive $1; then
    p=$(pid $1)
    kill -TERM $p 2>/dev/null
    for i in $(seq $((${2:-20} * 4))); do alive $1 || break; sleep .25; done
    kill -KILL -- -$p 2>/dev/null
  fi
  rm -f $OSLAB/run/$1.pid; echo "  stopped $1"
}
# wait_port NAME PORT [SECONDS]: until it listens; at once an error when the process has ended
wait_port() {
  local i
  for i in $(seq $((${3:-60} * 4))); do
    (: <>/dev/tcp/$IP/$2) 2>/dev/null && return 0
    alive $1 || { fail "$1 ended before it listened on port $2" $OSLAB/log/$1.log; return 1; }
    sleep .25
  done
  fail "$1 does not listen on port $2 after ${3:-60} s" $OSLAB/log/$1.log
}

start_db() {
  # A server that starts removes all temporary tables that it finds, also those of another one that runs: it has a folder of its own for them.
  install -d -o mysql -g mysql $OSLAB/data/mysql-tmp
  if [ ! -f $OSLAB/state/mariadb-made ]; then
    rm -rf $OSLAB/data/mysql; install -d -o mysql -g mysql $OSLAB/data/mysql
    timeout 120 mariadb-install-db --no-defaults --user=mysql --datadir=$OSLAB/data/mysql --tmpdir=$OSLAB/data/mysql-tmp --skip-test-db >$OSLAB/log/mariadb-install.log 2>&1 ||
      { fail "making the database folder" $OSLAB/log/mariadb-install.log; return 1; }
    touch $OSLAB/state/mariadb-made
  fi
  spawn mariadb mariadbd --no-defaults --user=mysql --datadir=$OSLAB/data/mysql --tmpdir=$OSLAB/data/mysql-tmp --socket=$OSLAB/data/mysql/s.sock \
    --pid-file=$OSLAB/data/mysql/m.pid --bind-address=$IP --port=$DB_PORT --max-connections=2000 \
    --innodb-buffer-pool-size=512M --innodb-flush-log-at-trx-commit=1 --character-set-server=utf8mb4 --skip-name-resolve
  wait_port mariadb $DB_PORT || return 1
  mariadb --no-defaults -S $OSLAB/data/mysql/s.sock -e "create user if not exists '$DB_USER'@'%' identified by '$DB_PASS'; grant all on *.* to '$DB_USER'@'%'; create user if not exists '$DB_USER'@'localhost' identified by '$DB_PASS'; grant all on *.* to '$DB_USER'@'localhost';"
}
stop_db() { stop mariadb; }

rabbit() { # rabbit PROGRAM ARGS...: a RabbitMQ tool with the lab's own node, ports, cookie and data (the packaged wrapper would reset HOME)
  local p=$1; shift
  (cd $OSLAB/data/rabbit && env HOME=$OSLAB/data/rabbit ERL_EPMD_PORT=$EPMD_PORT RABBITMQ_NODENAME=oslab@localhost RABBITMQ_NODE_PORT=$AMQP_PORT \
    RABBITMQ_DIST_PORT=$AMQP_DIST_PORT RABBITMQ_NODE_IP_ADDRESS=$IP ERL_EPMD_ADDRESS=$IP RABBITMQ_MNESIA_BASE=$OSLAB/data/rabbit/mnesia \
    RABBITMQ_LOG_BASE=$OSLAB/data/rabbit/log RABBITMQ_CONFIG_FILE=$OSLAB/data/rabbit/rabbitmq RABBITMQ_ENABLED_PLUGINS_FILE=$OSLAB/data/rabbit/plugins \
    RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+sbwt none -kernel inet_dist_use_interface {127,0,0,1}' \
    setpriv --reuid rabbitmq --regid rabbitmq --clear-groups /usr/lib/rabbitmq/bin/$p "$@")
}
export -f rabbit
start_rabbit() {
  install -d -o rabbitmq -g rabbitmq $OSLAB/data/rabbit
  # epmd in the foreground: left to itself it would become a daemon that outlives the lab
  spawn epmd setpriv --reuid rabbitmq --regid rabbitmq --clear-groups epmd -address $IP -port $EPMD_PORT
  wait_port epmd $EPMD_PORT || return 1
  spawn rabbitmq bash -c 'rabbit rabbitmq-server'
  wait_port rabbitmq $AMQP_PORT 120 || return 1
  timeout 90 bash -c 'rabbit rabbitmqctl -q await_startup --timeout 60' &&
  { timeout 60 bash -c 'rabbit rabbitmqctl -q list_users' | grep -q "^$AMQP_USER" ||
    timeout 60 bash -c 'rabbit rabbitmqctl -q add_user $AMQP_USER $AMQP_PASS'; } &&
  timeout 60 bash -c 'rabbit rabbitmqctl -q set_permissions -p / $AMQP_USER ".*" ".*" ".*"' ||
    fail "RabbitMQ is not ready" $OSLAB/log/rabbitmq.log
}
stop_rabbit() {
  alive rabbitmq && timeout 40 bash -c 'rabbit rabbitmqctl -q shutdown --timeout 30' >/dev/null 2>&1
  stop rabbitmq; stop epmd
}
start_memcached() { spawn memcached memcached -u nobody -l $IP -p $MEMCACHED_PORT -m 64; wait_port memcached $MEMCACHED_PORT; }
stop_memcached() { stop memcached; }
