//! conductor
