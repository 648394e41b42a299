//! The order by which masters see off workers; new workers bring it with them.
//!
//! What a node says of itself, labels and annotations, is the word of whoever is root there: NodeRestriction keeps him from other nodes, not from
//! this. So masters believe none of it. Whom new workers replace, and how many of them come, is signed with what masters and this service
//! have and no worker has: the key of the cluster's authority. `scripts/succession.sh` checks it.

use model::seal::hmac_sha256;

use crate::driver::heat::cloud_config::digest;
use crate::driver::heat::stack_input::KnownAuthority;
use crate::driver::{PoolKind, Succession};

/// Signed with the key of each authority: while there are two, a master may have that of either.
pub(super) fn order(succession: &Succession<'_>, authorities: &[KnownAuthority<'_>]) -> String {
    let text = text(succession);
    authorities.iter().map(|known| signature(known.key, &text)).collect::<Vec<_>>().join(".")
}

/// What is signed: the names of those that go, as the new ones tell them (`replaced_nodes` in `scripts/common.sh`), and how many come for them.
fn text(succession: &Succession<'_>) -> String {
    // The templates name nodes so; an operator's own are held to it.
    let prefix = PoolKind::Workers.prefix(succession.stack);
    let names: Vec<String> = succession.replaces.iter().map(|number| format!("{prefix}{number}")).collect();
    format!("{} {}", names.join(","), succession.newcomers)
}

/// HMAC-SHA-256. The digits of a SHA-256 are a key of exactly one block, which a shell can make something of.
fn signature(ca_key: &str, text: &str) -> String {
    let key = digest(&format!("orders to masters\n{}", ca_key.trim_end()));
    hmac_sha256(key.as_bytes(), text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stack: &str, replaces: &[&str], newcomers: i32, keys: &[&str]) -> String {
        let replaces: Vec<String> = replaces.iter().map(|number| (*number).to_owned()).collect();
        let known: Vec<_> = keys.iter().map(|&key| KnownAuthority { key, public_key_hash: "00ff" }).collect();
        order(&Succession { stack, replaces: &replaces, newcomers }, &known)
    }

    #[test]
    fn an_order_is_for_these_nodes_so_many_newcomers_and_one_cluster() {
        let one = of("blue-1", &["0", "12"], 2, &["key"]);
        assert_eq!(one.len(), 64);
        assert_eq!(one, of("blue-1", &["0", "12"], 2, &["key\n"]), "a file ends with its line");
        let others = [
            of("blue-2", &["0", "12"], 2, &["key"]),
            of("blue-1", &["0", "1"], 2, &["key"]),
            of("blue-1", &["12", "0"], 2, &["key"]),
            of("blue-1", &["0", "12"], 1, &["key"]),
            of("blue-1", &["0", "12"], 2, &["other"]),
        ];
        assert!(!others.contains(&one), "{others:?}");
    }

    #[test]
    fn while_there_are_two_authorities_either_signs() {
        let each = ["old", "new"].map(|key| of("blue-1", &["0"], 1, &[key]));
        assert_eq!(of("blue-1", &["0"], 1, &["old", "new"]), each.join("."));
    }
}
