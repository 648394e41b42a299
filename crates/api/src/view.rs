//! Request and response JSON: what the bodies look like, and nothing about what they mean.

pub mod body;
pub mod certificate;
pub mod cluster;
pub mod event;
pub mod federation;
pub mod forecast;
pub mod label;
pub mod labels;
pub mod links;
pub mod literal;
pub mod nodegroup;
pub mod operation;
pub mod page;
pub mod patch;
pub mod quota;
pub mod schema;
pub mod service;
pub mod shape;
pub mod stats;
pub mod template;
pub mod time;
