//! A rule as a tree, and how it is written.

use std::borrow::Cow;
use std::fmt;

/// A rule, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Always,
    Never,
    Not(Box<Check>),
    All(Vec<Check>),
    Any(Vec<Check>),
    /// Another rule.
    Rule(String),
    /// The caller holds a role.
    Role(Pattern),
    /// An attribute of the caller, named by a path with dots, has a value.
    Attribute {
        path: String,
        value: Pattern,
    },
    /// A constant has a value.
    Constant {
        constant: Constant,
        value: Pattern,
    },
}

/// A constant on the left-hand side: as it was written, and what it is compared as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    pub written: String,
    pub text: String,
}

/// A right-hand side, which may name attributes of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `%(name)s`
    Attribute(String),
}

impl Pattern {
    /// Reads the right-hand side of a check.
    ///
    /// # Errors
    /// Of Python's formats only `%(name)s` and `%%` are known: others would fail on every request upstream.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            plain.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                plain.push('%');
                rest = after;
                continue;
            }
            let named = after.strip_prefix('(').and_then(|a| a.split_once(")s")).filter(|(name, _)| !name.contains(['(', ')']));
            let (name, after) = named.ok_or_else(|| format!("in {text}: % must begin %(name)s or be doubled"))?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Attribute(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }

    /// The text with the target's attributes in it; none when the target lacks one of them.
    pub fn expand<'a>(&'a self, attribute: impl Fn(&str) -> Option<Cow<'a, str>>) -> Option<Cow<'a, str>> {
        match self.0.as_slice() {
            [] => Some(Cow::Borrowed("")),
            [Piece::Text(text)] => Some(Cow::Borrowed(text)),
            [Piece::Attribute(name)] => attribute(name),
            pieces => {
                let mut out = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.push_str(text),
                        Piece::Attribute(name) => out.push_str(&attribute(name)?),
                    }
                }
                Some(Cow::Owned(out))
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => f.write_str(&text.replace('%', "%%"))?,
                Piece::Attribute(name) => write!(f, "%({name})s")?,
            }
        }
        Ok(())
    }
}

/// The canonical text, as oslo.policy writes it; reading it again gives an equal tree.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, checks: &[Self], word: &str| {
            f.write_str("(")?;
            for (at, check) in checks.iter().enumerate() {
                if at > 0 {
                    write!(f, " {word} ")?;
                }
                check.fmt(f)?;
            }
            f.write_str(")")
        };
        match self {
            Self::Always => f.write_str("@"),
            Self::Never => f.write_str("!"),
            Self::Not(inner) => write!(f, "not {inner}"),
            Self::All(checks) => joined(f, checks, "and"),
            Self::Any(checks) => joined(f, checks, "or"),
            Self::Rule(name) => write!(f, "rule:{name}"),
            Self::Role(role) => write!(f, "role:{role}"),
            Self::Attribute { path, value } => write!(f, "{path}:{value}"),
            Self::Constant { constant, value } => write!(f, "{}:{value}", constant.written),
        }
    }
}
