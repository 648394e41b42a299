//! The one kind that Helm writes in the binary form of the API: the secrets in which it keeps its releases.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

/// What a body in this form begins with.
const MAGIC: &[u8] = b"k8s\0";

/// A field of a message: its bytes, or a number, of which none is wanted.
enum Field<'a> {
    Bytes(&'a [u8]),
    Number,
}

/// Reads a secret; none when it is none.
pub(crate) fn secret(body: &[u8]) -> Option<Value> {
    let envelope = fields(body.strip_prefix(MAGIC)?)?;
    let message = fields(bytes(&envelope, 2)?)?;
    let metadata = fields(bytes(&message, 1)?)?;
    let mut object = json!({"metadata": {}, "type": text(&message, 3)});
    for (number, name) in [(1, "name"), (3, "namespace"), (5, "uid"), (6, "resourceVersion")] {
        if let Some(value) = text(&metadata, number).filter(|value| !value.is_empty()) {
            object["metadata"][name] = value.into();
        }
    }
    for (number, name) in [(11, "labels"), (12, "annotations")] {
        let map = entries(&metadata, number)?.into_iter().map(|(key, value)| Some((key, String::from_utf8(value.to_vec()).ok()?.into())));
        object["metadata"][name] = Value::Object(map.collect::<Option<Map<_, _>>>()?);
    }
    let data = entries(&message, 2)?.into_iter().map(|(key, value)| (key, BASE64_STANDARD.encode(value).into()));
    object["data"] = Value::Object(data.collect());
    Some(object)
}

fn bytes<'a>(message: &[(u64, Field<'a>)], wanted: u64) -> Option<&'a [u8]> {
    message.iter().find_map(|(number, field)| match field {
        Field::Bytes(bytes) if *number == wanted => Some(*bytes),
        Field::Bytes(_) | Field::Number => None,
    })
}

fn text(message: &[(u64, Field<'_>)], wanted: u64) -> Option<String> {
    String::from_utf8(bytes(message, wanted)?.to_vec()).ok()
}

/// The entries of a map: messages of a key and a value.
fn entries<'a>(message: &[(u64, Field<'a>)], wanted: u64) -> Option<Vec<(String, &'a [u8])>> {
    let of_map = message.iter().filter_map(|(number, field)| match field {
        Field::Bytes(bytes) if *number == wanted => Some(*bytes),
        Field::Bytes(_) | Field::Number => None,
    });
    of_map
        .map(|entry| {
            let entry = fields(entry)?;
            Some((text(&entry, 1)?, bytes(&entry, 2).unwrap_or_default()))
        })
        .collect()
}

fn fields(mut rest: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (key, after) = number(rest)?;
        rest = after;
        let field = match key & 7 {
            0 => {
                rest = number(rest)?.1;
                Field::Number
            }
            2 => {
                let (length, after) = number(rest)?;
                let length = usize::try_from(length).ok().filter(|length| *length <= after.len())?;
                let (bytes, after) = after.split_at(length);
                rest = after;
                Field::Bytes(bytes)
            }
            _ => return None,
        };
        all.push((key >> 3, field));
    }
    Some(all)
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(u32::try_from(at).ok()? * 7)?;
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).expect("short")];
        out.extend(bytes);
        out
    }

    #[test]
    fn a_secret_is_read_and_half_of_one_is_none() {
        let label = field(11, &[field(1, b"owner"), field(2, b"helm")].concat());
        let metadata = field(1, &[field(1, b"a"), field(6, b"7"), vec![7 << 3, 1], label].concat());
        let data = field(2, &[field(1, b"release"), field(2, b"\xff")].concat());
        let message = [metadata, data, field(3, b"helm.sh/release.v1")].concat();
        let body = [MAGIC, &field(1, b""), &field(2, &message)].concat();
        let read = secret(&body).expect("a secret");
        assert_eq!(read["metadata"], json!({"name": "a", "resourceVersion": "7", "labels": {"owner": "helm"}, "annotations": {}}));
        assert_eq!((&read["data"], &read["type"]), (&json!({"release": "/w=="}), &json!("helm.sh/release.v1")));
        assert!(secret(&body[..body.len() - 3]).is_none() && secret(b"{}").is_none());
    }
}
