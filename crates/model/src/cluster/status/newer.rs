//! The part of the table about work that a newer version of this program has stored: what it asks for nobody here knows.

use super::Begin;
use crate::operation::OperationKind;

/// What [`super::begin`] decided, where among what is unfinished is something that a newer version of this program has stored (`is_there`), or what it was
/// decided by is that itself (`decides`): nobody may be there to work that off, and no removal waits for it or leaves its work to it.
pub fn beside_unknown(decided: Begin, kind: OperationKind, is_there: bool, decides: bool) -> Begin {
    match decided {
        Begin::Start(next) if is_there && kind.removal().is_some() => Begin::Supersede(next),
        Begin::Coalesce if decides && kind.removal().is_some() => Begin::Supersede(kind.deed().at_work()),
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
            let is_removal = kind.removal().is_some();
            for (is_there, decides) in [(false, false), (true, false), (true, true)] {
                for (decided, gives_way) in [(Begin::Start(next), is_there), (Begin::Coalesce, decides), (Begin::Supersede(next), false)] {
                    let wanted = if gives_way && is_removal { Begin::Supersede(next) } else { decided };
                    assert_eq!(beside_unknown(decided, kind, is_there, decides), wanted, "{decided:?} {kind:?} {is_there} {decides}");
                }
            }
        }
    }
}
