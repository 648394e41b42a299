//! Texts that may stand in few places or in none, and the search for them: as they are, in base 64, and packed as the first boot of nodes is.
//!
//! A place is gone through once, however much is looked for: it is done at the end of every world.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::read::GzDecoder;

/// A key of a cluster, or of the service accounts in it: masters are given it.
pub const KEY: &str = "a private key";
/// The key of the service's own certificate: nobody is given it.
pub const CLIENT_KEY: &str = "the private key of the service's certificate";
pub const ENCRYPTED_KEY: &str = "an encrypted private key";
pub const PASSPHRASE: &str = "the passphrase of a key";
pub const TRUSTEE_PASSWORD: &str = "the password of a trustee";
pub const OWNER_PASSWORD: &str = "the password of the owner of stacks";
pub const BOOTSTRAP_TOKEN: &str = "a bootstrap token";
/// What secrets are encrypted with in etcd.
pub const ETCD_KEY: &str = "the key of secrets in etcd";

/// A shorter text stands in many a place by chance.
const SHORTEST: usize = 12;
/// By so many bytes of its begin a text is found; the shortest has more, in base 64 too.
const HEAD: usize = 8;
/// How base 64 of gzip begins.
const PACKED: &[u8] = b"H4sI";
/// So much of what is packed is looked at, and so deep.
const MOST_UNPACKED: u64 = 4 * 1024 * 1024;
const DEEPEST: u32 = 3;
/// What is shown before and behind what was found.
const AROUND: usize = 80;
/// Places that are told.
const MOST_TOLD: usize = 50;

/// What is looked for, with what it is. One text may be several things.
#[derive(Clone, Default)]
pub struct Secrets(BTreeMap<String, BTreeSet<&'static str>>);

impl Secrets {
    /// Looks for a text, too, if it is long enough.
    pub fn keep(&mut self, secret: &str, what: &'static str) {
        if secret.len() >= SHORTEST {
            self.0.entry(secret.to_owned()).or_default().insert(what);
        }
    }

    /// Looks for a private key (PEM): the line in the middle. The first ones hold what the public key holds, too.
    pub fn keep_key(&mut self, pem: &str, what: &'static str) {
        let lines: Vec<&str> = pem.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('-')).collect();
        if let Some(line) = lines.get(lines.len() / 2) {
            self.keep(line, what);
        }
    }

    /// Looks for what the first boot of a node brings: keys, the token by which it joins, the trustee's password.
    pub fn keep_first_boot(&mut self, user_data: &str) {
        let mut rest = user_data.as_bytes();
        while let Some(at) = rest.windows(PACKED.len()).position(|window| window == PACKED) {
            rest = &rest[at..];
            // Where several documents are in one file, another sign stands in the place of the ends of their lines.
            let file = String::from_utf8_lossy(&unpacked(rest)).replace('\u{1f}', "\n");
            for part in file.split("-----BEGIN ").skip(1) {
                let (kind, key) = part.split_once('\n').unwrap_or_default();
                if kind.ends_with("PRIVATE KEY-----") {
                    self.keep_key(key.split("-----END ").next().unwrap_or_default(), KEY);
                }
            }
            for part in file.split("\"token\": \"").skip(1) {
                let token = part.split('"').next().unwrap_or_default();
                if token.len() == 23 && token.as_bytes()[6] == b'.' {
                    self.keep(token, BOOTSTRAP_TOKEN);
                }
            }
            for part in file.split("password=").skip(1) {
                // Quoted once by its own file, and once more by the document that the file is in.
                let part = part.trim_start_matches(['\\', '"']);
                let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
                self.keep(&part[..end], TRUSTEE_PASSWORD);
            }
            rest = &rest[PACKED.len()..];
        }
    }

    /// A search for all of them.
    pub fn search(&self) -> Search {
        let mut search = Search { needles: Vec::new(), by_head: HashMap::new(), begins: vec![false; 1 << 16], leaks: BTreeMap::new() };
        for (secret, what) in &self.0 {
            search.look_for(secret.as_bytes().to_vec(), what);
            for before in 0..3 {
                search.look_for(encoded(secret, before), what);
            }
        }
        search.begins[pair(PACKED)] = true;
        search
    }
}

/// A text as base 64 has it that has so many bytes before it (of any three, what matters), without what depends on the bytes around.
fn encoded(text: &str, before: usize) -> Vec<u8> {
    let bytes = [vec![0; before].as_slice(), text.as_bytes()].concat();
    // A sign is six bits: those that hold any of the bytes before are left out, and the last one that is not full.
    let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    STANDARD_NO_PAD.encode(&bytes).as_bytes()[first..end].to_vec()
}

/// What the packed text holds that begins here; as much of it as can be had.
fn unpacked(text: &[u8]) -> Vec<u8> {
    let is_of_base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let length = text.iter().position(|byte| !is_of_base64(*byte)).unwrap_or(text.len());
    let mut content = Vec::new();
    if let Ok(bytes) = STANDARD_NO_PAD.decode(&text[..length - length % 4]) {
        // What comes before it breaks off has been written.
        let _ = GzDecoder::new(bytes.as_slice()).take(MOST_UNPACKED).read_to_end(&mut content);
    }
    content
}

/// The first two bytes, as a number.
fn pair(text: &[u8]) -> usize {
    (usize::from(text[0]) << 8) | usize::from(text[1])
}

struct Needle {
    text: Vec<u8>,
    what: BTreeSet<&'static str>,
}

/// A search, and what it has found.
pub struct Search {
    needles: Vec<Needle>,
    by_head: HashMap<Vec<u8>, Vec<usize>>,
    /// Which pairs of bytes anything begins with that is looked for: most of a place is passed over by this alone.
    begins: Vec<bool>,
    leaks: BTreeMap<String, String>,
}

impl Search {
    fn look_for(&mut self, text: Vec<u8>, what: &BTreeSet<&'static str>) {
        self.begins[pair(&text)] = true;
        self.by_head.entry(text[..HEAD].to_vec()).or_default().push(self.needles.len());
        self.needles.push(Needle { text, what: what.clone() });
    }

    /// Goes through a place, in which these things rightly are.
    pub fn look(&mut self, place: &str, text: &[u8], rightly: &[&str]) {
        if !self.leaks.contains_key(place)
            && let Some(found) = self.find(text, rightly, 0)
        {
            self.leaks.insert(place.to_owned(), found);
        }
    }

    /// Where something was found, and what.
    pub fn leaks(&self) -> Vec<String> {
        self.leaks.iter().take(MOST_TOLD).map(|(place, found)| format!("{place} has {found}")).collect()
    }

    /// An error when anything was found.
    pub fn end(self) -> Result<()> {
        ensure!(self.leaks.is_empty(), "{}", self.leaks().join("\n"));
        Ok(())
    }

    fn find(&self, text: &[u8], rightly: &[&str], depth: u32) -> Option<String> {
        let mut packed = Vec::new();
        for at in 0..(text.len() + 1).saturating_sub(HEAD) {
            let rest = &text[at..];
            if !self.begins[pair(rest)] {
                continue;
            }
            if rest.starts_with(PACKED) {
                packed.push(at);
            }
            let likely = self.by_head.get(&rest[..HEAD]).into_iter().flatten().map(|number| &self.needles[*number]);
            let mut found = likely.filter(|needle| rest.starts_with(&needle.text));
            if let Some(needle) = found.find(|needle| !needle.what.iter().any(|what| rightly.contains(what))) {
                let what = needle.what.iter().copied().collect::<Vec<_>>().join(", ");
                let end = text.len().min(at + needle.text.len().min(AROUND) + AROUND);
                return Some(format!("{what} in it: {}", String::from_utf8_lossy(&text[at.saturating_sub(AROUND)..end])));
            }
        }
        if depth == DEEPEST {
            return None;
        }
        packed.into_iter().find_map(|at| self.find(&unpacked(&text[at..]), rightly, depth + 1))
    }
}

#[cfg(test)]
mod tests;
