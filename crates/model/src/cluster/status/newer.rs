//! The part of the table about work that a newer version of this program has stored: what it asks for nobody here knows.

use super::Begin;
use crate::operation::OperationKind;

/// What [`super::begin`] decided, where among what is unfinished is something that a newer version of this program has stored: nobody may be there to work
/// that off, and no removal waits for it.
pub fn beside_unknown(decided: Begin, kind: OperationKind, is_there: bool) -> Begin {
    match decided {
        Begin::Start(next) if is_there && kind.removal().is_some() => Begin::Supersede(next),
        decided => decided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_supersedes_what_a_newer_version_has_stored_and_nothing_else_does() {
        for kind in OperationKind::ALL.iter().copied() {
            let next = kind.deed().at_work();
            for is_there in [false, true] {
                let start = Begin::Start(next);
                let wanted = if is_there && kind.removal().is_some() { Begin::Supersede(next) } else { start };
                assert_eq!(beside_unknown(start, kind, is_there), wanted, "{kind:?} {is_there}");
                for other in [Begin::Coalesce, Begin::Supersede(next)] {
                    assert_eq!(beside_unknown(other, kind, is_there), other, "{kind:?} {is_there}");
                }
            }
        }
    }
}
