//! The rules in force: the defaults, and the operator's files in their place.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use serde_json::Value;

use super::check::Check;
use super::{PolicyError, PolicyFile, PolicyOptions, defaults, evaluate, parser};

/// Rules that lead to each other further than this are refused.
const FURTHEST: usize = 32;
/// Rules that may need more checks than this are refused: with a few that refer to one another twice, an answer takes years.
const LARGEST: usize = 10_000;

/// What a rule may cost.
#[derive(Clone, Copy, Default)]
struct Reach {
    /// Rules from it to the furthest.
    depth: usize,
    /// Checks made for one answer, all rules counted that it leads to.
    checks: usize,
}

/// The rules in force.
#[derive(Debug)]
pub struct Rules {
    checks: HashMap<String, Check>,
    /// Name of the rule for what has none.
    default: String,
}

impl Rules {
    /// The defaults with the rules of the files in their place, a later file before an earlier one; and what an operator should hear of it.
    ///
    /// # Errors
    /// When a file or one of its rules cannot be read, or rules lead to themselves: half a policy is worse than none.
    pub fn load(options: &PolicyOptions, files: &[PolicyFile]) -> Result<(Self, Vec<String>), PolicyError> {
        let mut from_files: IndexMap<String, (Check, &str)> = IndexMap::new();
        for file in files {
            for (name, value) in contents(file)? {
                let check = parser::parse(&value).map_err(|reason| bad_rule(&file.name, &name, reason))?;
                from_files.insert(name, (check, &file.name));
            }
        }
        let mut checks = HashMap::new();
        for default in defaults::all() {
            let check = default_check(&default, options, &from_files)?;
            checks.insert(default.name.to_owned(), check);
        }
        let built_in: HashSet<String> = checks.keys().cloned().collect();
        checks.extend(from_files.iter().map(|(name, (check, _))| (name.clone(), check.clone())));
        let rules = Self { checks, default: options.default_rule.clone() };
        rules.refuse_circles(&from_files)?;
        let warnings = rules.warnings(&built_in, &from_files);
        Ok((rules, warnings))
    }

    /// The rule of a name, or the one for what has none.
    pub fn find(&self, name: &str) -> Option<&Check> {
        self.checks.get(name).or_else(|| self.checks.get(&self.default))
    }

    fn refuse_circles(&self, from_files: &IndexMap<String, (Check, &str)>) -> Result<(), PolicyError> {
        let mut known = HashMap::new();
        for name in from_files.keys() {
            self.reach(name, &mut Vec::new(), &mut known).map_err(|reason| bad_rule(from_files[name].1, name, reason))?;
        }
        Ok(())
    }

    /// How far a rule leads; every rule is walked once.
    fn reach<'a>(&'a self, name: &'a str, path: &mut Vec<&'a str>, known: &mut HashMap<&'a str, Reach>) -> Result<Reach, String> {
        // What has no rule is decided by the default one.
        let name = if self.checks.contains_key(name) { name } else { self.default.as_str() };
        let Some(check) = self.checks.get(name) else { return Ok(Reach::default()) };
        if let Some(reach) = known.get(name) {
            return Ok(*reach);
        }
        if let Some(start) = path.iter().position(|earlier| *earlier == name) {
            let circle: Vec<&str> = path[start..].iter().copied().chain([name]).collect();
            return Err(format!("it leads in a circle: {}", circle.join(" -> ")));
        }
        path.push(name);
        if path.len() > FURTHEST {
            return Err(format!("it leads through more than {FURTHEST} other rules"));
        }
        let mut reach = Reach { depth: 0, checks: size(check) };
        for next in references(check) {
            let further = self.reach(next, path, known)?;
            reach.depth = reach.depth.max(further.depth + 1);
            reach.checks += further.checks;
        }
        path.pop();
        if reach.depth > FURTHEST {
            return Err(format!("it leads through more than {FURTHEST} other rules"));
        }
        if reach.checks > LARGEST {
            return Err(format!("it may need more than {LARGEST} checks, with the rules that it refers to"));
        }
        known.insert(name, reach);
        Ok(reach)
    }

    fn warnings(&self, built_in: &HashSet<String>, from_files: &IndexMap<String, (Check, &str)>) -> Vec<String> {
        let used: HashSet<&str> = self.checks.values().flat_map(references).collect();
        let mut found = Vec::new();
        for (name, (check, file)) in from_files {
            if !built_in.contains(name) && !used.contains(name.as_str()) && *name != self.default && !defaults::is_deprecated(name) {
                found.push(format!(
                    "{file}: rule {name} has no effect: the service asks for no rule of this name, and no other rule refers to it"
                ));
            }
            for reference in references(check).into_iter().filter(|r| !self.checks.contains_key(*r)) {
                found.push(format!("{file}: rule {name} refers to {reference}, which is not defined"));
            }
            for path in attributes(check).into_iter().filter(|path| !evaluate::is_known(path)) {
                found.push(format!("{file}: rule {name} asks for {path}, which no caller has"));
            }
        }
        found
    }
}

fn bad_rule(file: &str, rule: &str, reason: String) -> PolicyError {
    PolicyError::Rule { file: file.to_owned(), rule: rule.to_owned(), reason }
}

/// A default, as the options and an operator's version of its predecessor change it.
///
/// A predecessor that a file repeats as it was is no version of the operator's: so oslo.policy decides from 5.0 on (2026.1). Before, no two checks
/// were equal, so that a repeated one took its successors' places too; `tests/upstream/files-formerly.jsonl` has what that changed.
fn default_check(
    default: &defaults::Default,
    options: &PolicyOptions,
    from_files: &IndexMap<String, (Check, &str)>,
) -> Result<Check, PolicyError> {
    let read = |text: &str| parser::parse_text(text).map_err(|reason| bad_rule("the built-in rules", default.name, reason));
    let check = read(default.text)?;
    let Some(before) = default.before else { return Ok(check) };
    let old = read(before.text)?;
    if let Some((theirs, _)) = from_files.get(before.name)
        && *theirs != old
        && *theirs != Check::Rule(default.name.to_owned())
    {
        return Ok(theirs.clone());
    }
    Ok(if options.enforce_new_defaults { check } else { Check::Any(vec![check, old]) })
}

/// The rules of one file, by name. Of a name that stands there twice the last one counts, as upstream.
fn contents(file: &PolicyFile) -> Result<IndexMap<String, Value>, PolicyError> {
    let bad = |reason: String| PolicyError::File { file: file.name.clone(), reason };
    let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
    if let Ok(map) = serde_json::from_str(text) {
        return Ok(map);
    }
    // YAML reads a bare exclamation mark as a tag without a value, which is as good as "everybody".
    let is_bare = |line: &str| line.split(" #").next().is_some_and(|line| line.trim_end().ends_with(": !") || line.trim() == "- !");
    if let Some(at) = text.lines().position(is_bare) {
        return Err(bad(format!("line {}: an exclamation mark must stand in quotes", at + 1)));
    }
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins };
    let map: Option<IndexMap<String, Value>> = serde_saphyr::from_str_with_options(text, options).map_err(|e| bad(e.to_string()))?;
    Ok(map.unwrap_or_default())
}

fn visit<'a>(check: &'a Check, seen: &mut impl FnMut(&'a Check)) {
    seen(check);
    match check {
        Check::Not(inner) => visit(inner, seen),
        Check::All(checks) | Check::Any(checks) => checks.iter().for_each(|c| visit(c, seen)),
        _ => {}
    }
}

/// The checks that a rule is made of.
fn size(check: &Check) -> usize {
    let mut found = 0;
    visit(check, &mut |_| found += 1);
    found
}

/// The rules that a rule refers to.
fn references(check: &Check) -> Vec<&str> {
    let mut found = Vec::new();
    visit(check, &mut |c| {
        if let Check::Rule(name) = c {
            found.push(name.as_str());
        }
    });
    found
}

/// The caller's attributes that a rule asks for.
fn attributes(check: &Check) -> Vec<&str> {
    let mut found = Vec::new();
    visit(check, &mut |c| {
        if let Check::Attribute { path, .. } = c {
            found.push(path.as_str());
        }
    });
    found
}
