//! cloud-simulator
