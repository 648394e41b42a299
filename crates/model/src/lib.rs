//! What is stored, what is handed over, and which state may follow which.
//!
//! This crate knows no HTTP and no cloud. It is the only one that names the database library and the AMQP library; everything else goes
//! through [`store::Store`] and [`queue::Doorbell`].

pub mod blocking;
pub mod capi;
pub mod certificate;
pub mod cluster;
pub mod driver;
pub mod federation;
pub mod forecast;
#[doc(hidden)]
pub mod fuzz;
pub mod id;
pub mod json;
pub mod kubernetes;
pub mod labels;
pub mod nodegroup;
pub mod notification;
pub mod operation;
mod packed;
pub mod placement;
pub mod planted;
pub mod queue;
pub mod quota;
pub mod random;
pub mod resource;
mod schema;
pub mod seal;
pub mod service;
pub mod simulation;
pub mod store;
pub mod template;
pub mod text;
pub mod time;
