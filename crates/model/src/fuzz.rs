//! Doors for the fuzz targets (`tests/fuzz/` in the checkout): bytes from outside go in, and nothing but an answer may come of it. Not an interface.

use std::sync::OnceLock;

use crate::certificate::signing::{Request, SigningRules, sign};
use crate::certificate::{Facts, NewKeypair, Opened, Terms, is_authority, new_authority, read_extension_value};
use crate::queue::amqp::ended_stack;

/// A certificate request, signed when it can be read; and the same bytes as what an extension of one holds, and as a certificate.
///
/// # Panics
/// When what was signed is an authority, or cannot be read.
pub fn csr(data: &[u8]) {
    static AUTHORITY: OnceLock<NewKeypair> = OnceLock::new();
    read_extension_value(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = Facts::read(text);
    let Ok(request) = Request::read(text) else { return };
    let authority: Opened = AUTHORITY
        .get_or_init(|| new_authority("fuzz", Terms { validity_days: 1, rsa_bits: 2048 }).expect("an authority is made"))
        .open()
        .expect("it opens");
    if let Ok(signed) = sign(&authority, &request, &SigningRules::default()) {
        assert!(!is_authority(&signed).expect("what was signed can be read"), "an authority was signed");
        Facts::read(&signed).expect("it tells what it is");
    }
}

/// A message of another program's.
///
/// # Panics
/// When it is heard as the end of a stack without an id.
pub fn message(data: &[u8]) {
    if let Some(id) = ended_stack(data) {
        assert!(!id.is_empty() && !id.contains('/'), "{id:?} is no id");
    }
}
