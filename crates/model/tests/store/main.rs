//! The store on both databases, and the doorbell on RabbitMQ.
//!
//! Each test owns its database. MariaDB is found through `MAGNUM_TEST_MYSQL_URL`, RabbitMQ through `MAGNUM_TEST_AMQP_URL`; both are set by
//! `cargo xtask test`, which starts the servers.

mod collation;
mod credential_health;
mod doorbell;
mod exits;
mod health;
mod history;
mod list;
mod nameless;
mod nodegroup;
mod notification;
mod operation;
mod paging;
mod payload;
mod placement;
mod pool;
mod quota;
mod scale;
mod schema;
mod sealing;
mod service;
mod upsert;
mod world;
