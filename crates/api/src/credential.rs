//! Credentials that clusters act with.

pub mod rotate;
