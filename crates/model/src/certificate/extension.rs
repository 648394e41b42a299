//! Just enough DER to look into the extensions of a CSR, which the OpenSSL binding hands over as bytes.

use openssl::x509::X509ExtensionRef;

/// An extension of a request: which, how binding, and its value.
pub(super) struct Extension {
    /// The object identifier's DER content octets.
    pub oid: Vec<u8>,
    pub critical: bool,
    pub value: Vec<u8>,
}

/// Reads `SEQUENCE { OBJECT IDENTIFIER, BOOLEAN DEFAULT FALSE, OCTET STRING }`; none when it is not that.
pub(super) fn read(extension: &X509ExtensionRef) -> Option<Extension> {
    let der = extension.to_der().ok()?;
    let (0x30, body, _) = element(&der)? else { return None };
    let (0x06, oid, rest) = element(body)? else { return None };
    let (tag, value, rest) = element(rest)?;
    let (critical, value) = match tag {
        0x01 => {
            let (0x04, octets, _) = element(rest)? else { return None };
            (value.first().is_some_and(|b| *b != 0), octets)
        }
        0x04 => (false, value),
        _ => return None,
    };
    Some(Extension { oid: oid.to_vec(), critical, value: value.to_vec() })
}

/// The bits of a BIT STRING value, most significant of the first octet first.
pub(super) fn bits(value: &[u8]) -> Vec<bool> {
    match element(value) {
        Some((0x03, [_unused, octets @ ..], _)) => octets.iter().flat_map(|o| (0..8).map(move |i| o & (0x80 >> i) != 0)).collect(),
        _ => Vec::new(),
    }
}

/// Whether basic constraints say CA; none when they are not in the one form that DER has for them. Readers of certificates take other forms
/// too, so that what is not understood here must not be signed.
pub(super) fn is_ca(value: &[u8]) -> Option<bool> {
    let (0x30, body, []) = element(value)? else { return None };
    if body.is_empty() {
        return Some(false);
    }
    let (ca, rest) = match element(body)? {
        (0x01, [flag], rest) => (*flag != 0, rest),
        (0x02, _, _) => (false, body),
        _ => return None,
    };
    let is_end = rest.is_empty() || matches!(element(rest), Some((0x02, _, [])));
    is_end.then_some(ca)
}

/// Tag, content and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 || rest.len() < count {
            return None;
        }
        let (octets, rest) = rest.split_at(count);
        (octets.iter().fold(0usize, |n, o| (n << 8) | usize::from(*o)), rest)
    };
    if rest.len() < length {
        return None;
    }
    let (content, after) = rest.split_at(length);
    Some((tag, content, after))
}
