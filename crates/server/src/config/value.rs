//! The types an option may have, and the rule by which a text becomes one.
//!
//! A rule is a phrase that completes "must be ..."; it never repeats the text, because secrets pass here too.

use std::net::IpAddr;
use std::path::PathBuf;

use model::operation::{STEPS, StepLimits};
use provider_clients::Networks;
use secrecy::SecretString;

/// A type that an option's text can become.
pub(super) trait Value: Sized {
    /// Repetition of the key adds up instead of replacing.
    const MULTI: bool = false;
    /// The value must not appear in an error.
    const SECRET: bool = false;
    /// An empty text counts as if the key were not there.
    const EMPTY_IS_UNSET: bool = false;

    /// Reads one text; the error completes "must be".
    fn parse(text: &str) -> Result<Self, String>;

    /// Reads all texts of a repeated key.
    fn parse_all(texts: &[String]) -> Result<Self, String> {
        Self::parse(texts.last().map_or("", String::as_str))
    }

    /// What stands for an option that has neither a value nor a default.
    fn unset() -> Option<Self> {
        None
    }
}

impl<T: Value> Value for Option<T> {
    const MULTI: bool = T::MULTI;
    const SECRET: bool = T::SECRET;
    const EMPTY_IS_UNSET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Some)
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl Value for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl Value for PathBuf {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
}

impl Value for SecretString {
    const SECRET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned().into())
    }
}

impl Value for bool {
    fn parse(text: &str) -> Result<Self, String> {
        match text.to_lowercase().as_str() {
            "true" | "1" | "on" | "yes" => Ok(true),
            "false" | "0" | "off" | "no" => Ok(false),
            _ => Err("a boolean: true, 1, on, yes, false, 0, off or no".to_owned()),
        }
    }
}

impl Value for IpAddr {
    fn parse(text: &str) -> Result<Self, String> {
        text.trim().trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| "an IP address".to_owned())
    }
}

impl Value for Networks {
    fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| "a list of networks such as 10.0.0.0/8 and fd00::/8".to_owned())
    }
}

impl Value for StepLimits {
    fn parse(text: &str) -> Result<Self, String> {
        Self::read(text)
            .ok_or_else(|| format!("a list of steps and seconds such as volumes:1800, machines:7200, where steps are {}", STEPS.join(", ")))
    }

    fn unset() -> Option<Self> {
        Some(Self::default())
    }
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Value for $type {
            const EMPTY_IS_UNSET: bool = true;

            fn parse(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| format!("a whole number from {} to {}", <$type>::MIN, <$type>::MAX))
            }
        }
    )*};
}
number!(u16, u32, u64, i32, i64);

impl Value for f64 {
    const EMPTY_IS_UNSET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        text.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| "a number".to_owned())
    }
}

/// A number of which zero makes no sense, such as a number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positive(pub u32);

impl Value for Positive {
    const EMPTY_IS_UNSET: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        u32::parse(text).ok().filter(|number| *number > 0).map(Positive).ok_or_else(|| format!("a whole number from 1 to {}", u32::MAX))
    }
}

impl Value for Vec<String> {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().trim_end_matches(',');
        if text.is_empty() {
            return Ok(Vec::new());
        }
        Ok(text.split(',').map(|item| item.trim().to_owned()).collect())
    }

    fn unset() -> Option<Self> {
        Some(Vec::new())
    }
}

/// An option that is given several values by repeating its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated(pub Vec<String>);

impl Value for Repeated {
    const MULTI: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self(vec![text.to_owned()]))
    }

    fn parse_all(texts: &[String]) -> Result<Self, String> {
        Ok(Self(texts.to_vec()))
    }

    fn unset() -> Option<Self> {
        Some(Self(Vec::new()))
    }
}

/// Declares an option that is one of a few words; the words are compared without regard to case.
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $help:literal])+ $variant:ident = $first:literal $(| $more:literal)*),* $(,)? }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $help])+ $variant),* }

        impl $name {
            /// The word for it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $first),* }
            }
        }

        impl $crate::config::value::Value for $name {
            fn parse(text: &str) -> Result<Self, String> {
                let text = text.trim();
                $(if [$first $(, $more)*].iter().any(|word| text.eq_ignore_ascii_case(word)) {
                    return Ok(Self::$variant);
                })*
                Err(format!("one of {}", [$($first),*].join(", ")))
            }
        }
    };
}
pub(super) use words;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_eight_words_in_any_case() {
        for text in ["true", "True", "1", "on", "YES"] {
            assert_eq!(bool::parse(text), Ok(true), "{text}");
        }
        for text in ["false", "0", "Off", "no"] {
            assert_eq!(bool::parse(text), Ok(false), "{text}");
        }
        for text in ["", "2", "enabled"] {
            assert!(bool::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_are_split_at_commas_and_trimmed() {
        for (text, wanted) in [("", vec![]), (" , ", vec![]), ("a", vec!["a"]), ("a, b ,,c,", vec!["a", "b", "", "c"])] {
            assert_eq!(Vec::<String>::parse(text).expect("list"), wanted, "{text:?}");
        }
    }

    #[test]
    fn limits_of_steps_name_steps_that_there_are() {
        assert_eq!(StepLimits::parse("volumes:60").ok(), StepLimits::read("volumes:60"));
        assert_eq!(StepLimits::parse(""), Ok(StepLimits::default()));
        let rule = StepLimits::parse("volume:60").expect_err("there is no such step");
        assert!(rule.starts_with("a list of steps and seconds") && STEPS.iter().all(|step| rule.contains(step)), "{rule}");
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        assert_eq!(u16::parse(" 9511 "), Ok(9511));
        assert_eq!(u16::parse("65536"), Err("a whole number from 0 to 65535".to_owned()));
        assert_eq!(i64::parse("-1"), Ok(-1));
        assert!(Positive::parse("0").is_err());
        assert!(f64::parse("inf").is_err());
    }
}
