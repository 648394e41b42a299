//! Text from outside on its way into a column.

/// Longest reason kept, in characters; the column holds 64 KiB.
const LONGEST: usize = 4000;

/// What upstream's text columns can hold: they are `utf8mb3`, which has no characters beyond the basic plane, and MariaDB refuses the whole
/// row rather than one character. Cut to a length that lists can carry.
pub fn storable(text: &str) -> String {
    text.chars().take(LONGEST).map(|c| if (c as u32) > 0xffff { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A list, its items parted by commas, in as many texts as it takes for [`storable`] to cut none of them; one that is empty for an empty list. For lists that
/// are read again, of items without commas.
pub fn storable_lists<T: AsRef<str>>(items: &[T]) -> Vec<String> {
    let mut texts = Vec::new();
    let (mut text, mut length) = (String::new(), 0);
    for item in items {
        let item = item.as_ref();
        let added = item.chars().count();
        if length > 0 && length + 1 + added > LONGEST {
            texts.push(std::mem::take(&mut text));
            length = 0;
        }
        if length > 0 {
            text.push(',');
            length += 1;
        }
        text.push_str(item);
        length += added;
    }
    texts.push(text);
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_too_long_for_one_text_loses_nothing_in_several() {
        let names: Vec<String> = (0..200).map(|n| format!("blue-d3nognj2wvsf-default-worker-7xk2p-{n:05}")).collect();
        let texts = storable_lists(&names);
        assert!(texts.len() > 1 && texts.iter().all(|text| storable(text) == *text), "{texts:?}");
        assert!(texts.iter().flat_map(|text| text.split(',')).eq(&names), "{texts:?}");
        assert_eq!(storable_lists(&["1", "2"]), ["1,2"]);
        assert_eq!(storable_lists::<&str>(&[]), [""]);
    }

    #[test]
    fn what_the_column_cannot_hold_is_replaced_or_cut() {
        assert_eq!(storable("caf\u{e9} \u{1f600}"), "caf\u{e9} \u{fffd}");
        assert_eq!(storable(&"x".repeat(LONGEST + 5)).len(), LONGEST);
    }
}
