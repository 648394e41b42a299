//! Text from outside on its way into a column.

/// Longest reason kept, in characters; the column holds 64 KiB.
const LONGEST: usize = 4000;

/// What upstream's text columns can hold: they are `utf8mb3`, which has no characters beyond the basic plane, and MariaDB refuses the whole
/// row rather than one character. Cut to a length that lists can carry.
pub fn storable(text: &str) -> String {
    text.chars().take(LONGEST).map(|c| if (c as u32) > 0xffff { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_column_cannot_hold_is_replaced_or_cut() {
        assert_eq!(storable("caf\u{e9} \u{1f600}"), "caf\u{e9} \u{fffd}");
        assert_eq!(storable(&"x".repeat(LONGEST + 5)).len(), LONGEST);
    }
}
