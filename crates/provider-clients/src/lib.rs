//! provider-clients
