//! What the processes themselves need: `[DEFAULT]`, `[api]`, `[conductor]`, `[operations]`.

use std::net::IpAddr;
use std::path::PathBuf;

use model::operation::StepLimits;

use super::options::section;
use super::transport::TransportUrl;
use super::value::Positive;

section! {
    /// The process: its name in the cloud, its logs, its broker.
    Service {
        /// Name of this machine in `magnum_service`: one for each conductor, for those of one name are one service there. Unset: the fully qualified host
        /// name.
        host: Option<String>,
        /// Directory for files the service keeps.
        state_path: PathBuf = "/var/lib/magnum",
        /// The brokers: `rabbit://user:password@host:port,user:password@host2:port//virtual_host`.
        /// Options of [oslo_messaging_rabbit] may follow (`?ssl=true&ssl_ca_file=/path`); they are stronger than that section.
        transport_url: TransportUrl = "rabbit://",
        /// Exchange of messages and notifications.
        control_exchange: String = "magnum",
        /// Log at level DEBUG instead of INFO.
        debug: bool = "false",
        /// Directory of the log file; its name is that of the program unless log_file is set.
        log_dir: Option<PathBuf>,
        /// Name of the log file, relative to log_dir.
        log_file: Option<PathBuf>,
        /// Write log lines as JSON.
        use_json: bool = "false",
        /// Write log lines to standard error too. Without a log file they always go there.
        use_stderr: bool = "true",
        /// Age in seconds of a heartbeat after which a conductor is shown as down.
        service_down_time: u64 = "180",
        /// Run the standing tasks of the conductor (sweep, health, credentials).
        periodic_enable: bool = "true",
        /// Seconds between the runs of standing tasks, at most.
        periodic_interval_max: u64 = "60",
        /// Seconds that running work gets to come to a safe point after SIGTERM.
        graceful_shutdown_timeout: u64 = "60",
    }
}

section! {
    /// The HTTP server of `magnum-api`.
    Api {
        /// Address to listen on.
        host: IpAddr = "127.0.0.1",
        /// Port to listen on.
        port: u16 = "9511",
        /// Threads that serve requests. 0: one for each CPU.
        workers: u32 = "0",
        /// Most items of one page of a list.
        max_limit: Positive = "1000",
        /// Serve HTTPS.
        enabled_ssl: bool = "false",
        /// Certificate chain (PEM) for HTTPS.
        ssl_cert_file: Option<PathBuf>,
        /// Private key (PEM) for HTTPS.
        ssl_key_file: Option<PathBuf>,
    }
}

section! {
    /// `magnum-conductor`.
    Conductor {
        /// Threads that do work, 8 at most. 0: 2.
        workers: u32 = "0",
        /// Name of the queue.
        topic: String = "magnum-conductor",
    }
}

section! {
    /// How accepted operations are worked off. Not known to upstream.
    Operations {
        /// Seconds after which another conductor may take over an operation whose owner is silent.
        lease_seconds: u64 = "8",
        /// Seconds between two signs of life for operations in work.
        heartbeat_seconds: u64 = "2",
        /// Seconds between two looks into the table for work nobody announced.
        scan_seconds: u64 = "2",
        /// Shortest time in milliseconds between two looks at something the cloud is building.
        poll_min_ms: u64 = "1000",
        /// Longest time in milliseconds between two looks at something the cloud is building.
        poll_max_ms: u64 = "3000",
        /// Requests per second with which all conductors together ask Heat how its stacks are; each takes its share.
        heat_requests_per_second: Positive = "15",
        /// Most requests per second where it takes more than heat_requests_per_second to ask for all stacks that are waited for within
        /// poll_max_ms, 190 in a request: with the defaults, where there are more than 8,550. If this is no more than
        /// heat_requests_per_second, that is never exceeded. A conductor has 32 requests under way at most: alone it sends 60 a second where Heat
        /// answers within half a second.
        max_heat_requests_per_second: Positive = "60",
        /// Ask for the stacks of all projects at once, as the service user. Heat's policy stacks:global_index must allow it, which it does not
        /// unless it was changed; when Heat refuses, the stacks of each project are asked for by themselves.
        heat_global_listing: bool = "false",
        /// Listen to Heat's notifications on the broker of transport_url, so that the end of a stack is noticed at once.
        heat_notifications: bool = "false",
        /// The control_exchange of Heat.
        heat_notification_exchange: String = "heat",
        /// The topic of Heat's notifications that is listened to.
        heat_notification_topic: String = "notifications",
        /// Seconds for which what was asked for without a clear answer may still appear in the cloud; a retry asks for nothing before.
        settle_seconds: u64 = "30",
        /// Most operations a conductor works on at the same time; those that wait for the cloud are not counted.
        max_running: Positive = "256",
        /// Hours for which a notification waits for a broker that is away; then it is dropped, and counted.
        notification_hours: Positive = "24",
        /// Most operations a conductor has at the same time, those that wait for the cloud included.
        max_held: Positive = "10000",
        /// Private keys of certificates that each conductor has ready, 1,000 at most; a new cluster takes four, and what was taken is made anew.
        /// 0: each is made when it is needed.
        keys_ahead: u32 = "8",
        /// Days for which finished operations and their events are kept. Of a cluster that is there the newest stays, and what a retry may do
        /// again with what came after it.
        retention_days: u32 = "30",
        /// Seconds between two looks for what is older than that.
        housekeeping_seconds: Positive = "60",
        /// Seconds between two comparisons of the cloud with the tables, one conductor at a time; each conductor also looks when it starts.
        /// 0: never.
        sweep_seconds: u64 = "600",
        /// Seconds between two looks at each cluster's credentials (whether somebody can log in with them) and at the ends of its
        /// certificates. 0: never.
        credential_check_seconds: u64 = "3600",
        /// Seconds after which a forced deletion ends and says what it could not remove, from when a conductor has taken it. Three quarters of it, in
        /// which things are tried, are no less than settle_seconds and lease_seconds together: a shorter time is taken for the shortest that is
        /// long enough, with a warning.
        force_delete_seconds: Positive = "600",
        /// Seconds that a step of an operation may take at most, step by step, such as `volumes:1800, machines:7200`. The words are those of `steps` in
        /// `GET /v1/operations/{id}`, which shows the deadline of each; an operation whose step takes longer fails with the code `timeout` and says
        /// what it waited for. Unset, and of steps that are not named: as long as the operation may take. Forced deletions divide their time themselves.
        /// APIs show it and conductors keep it: the same is to be said to all of them.
        step_seconds: StepLimits,
    }
}
