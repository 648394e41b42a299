//! The services of the deployment.

pub mod list;
