//! Properties of the language, on expressions made at random.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::policy::check::Check;
use crate::policy::parser;

/// An expression and its meaning, told apart from the tree under test: no shared types, no parser, no printer.
#[derive(Clone, Debug)]
enum Tree {
    Everybody,
    Nobody,
    /// `left:right`; the right side is a plain text or the name of an attribute of the target.
    Compare(&'static str, Right),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

#[derive(Clone, Debug)]
enum Right {
    Text(&'static str),
    Target(&'static str),
}

fn tree() -> impl Strategy<Value = Tree> {
    let right = prop_oneof![
        prop::sample::select(vec!["admin", "member", "READER", "p1", "p2", "u1", "mine", "none", "True", "5"]).prop_map(Right::Text),
        prop::sample::select(vec!["project_id", "user_id", "nothing"]).prop_map(Right::Target),
    ];
    let left = prop::sample::select(vec![
        "role",
        "rule",
        "project_id",
        "user_id",
        "user_name",
        "is_admin",
        "'p1'",
        "\"p2\"",
        "5",
        "True",
        "odd.path",
    ]);
    let leaf = prop_oneof![Just(Tree::Everybody), Just(Tree::Nobody), (left, right).prop_map(|(l, r)| Tree::Compare(l, r))];
    leaf.prop_recursive(6, 48, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|t| Tree::Not(Box::new(t))),
            two.clone().prop_map(|(a, b)| Tree::And(Box::new(a), Box::new(b))),
            two.prop_map(|(a, b)| Tree::Or(Box::new(a), Box::new(b))),
        ]
    })
}

/// Writes an expression with as few parentheses as its meaning allows, or with more, as `style` has it.
fn written(tree: &Tree, style: &mut impl Iterator<Item = u8>) -> String {
    let style_now = style.next().unwrap_or(0);
    let word = |word: &str| if style_now & 1 == 0 { word.to_owned() } else { word.to_uppercase() };
    let gap = if style_now & 2 == 0 { " " } else { "\n  " };
    // Not binds more closely than and, and more closely than or.
    let rank = |t: &Tree| match t {
        Tree::Or(..) => 0,
        Tree::And(..) => 1,
        _ => 2,
    };
    let part = |t: &Tree, least: u8, style: &mut dyn Iterator<Item = u8>| {
        let mut style = style;
        let text = written(t, &mut style);
        if rank(t) < least { format!("({text})") } else { text }
    };
    let text = match tree {
        Tree::Everybody => "@".to_owned(),
        Tree::Nobody => "!".to_owned(),
        Tree::Compare(left, Right::Text(text)) => format!("{left}:{text}"),
        Tree::Compare(left, Right::Target(name)) => format!("{left}:%({name})s"),
        Tree::Not(t) => format!("{}{gap}{}", word("not"), part(t, 2, style)),
        Tree::And(a, b) => format!("{}{gap}{}{gap}{}", part(a, 1, style), word("and"), part(b, 1, style)),
        Tree::Or(a, b) => format!("{}{gap}{}{gap}{}", part(a, 0, style), word("or"), part(b, 0, style)),
    };
    if style_now & 4 == 0 { text } else { format!("( {text} )") }
}

/// What the expression means, by the definition of the language.
fn means(tree: &Tree, caller: &HashMap<&str, &str>, roles: &[String], target: &HashMap<&str, &str>) -> bool {
    match tree {
        Tree::Everybody => true,
        Tree::Nobody => false,
        Tree::Not(t) => !means(t, caller, roles, target),
        Tree::And(a, b) => means(a, caller, roles, target) & means(b, caller, roles, target),
        Tree::Or(a, b) => means(a, caller, roles, target) | means(b, caller, roles, target),
        Tree::Compare("rule", Right::Text("mine")) => caller["project_id"] == target["project_id"],
        Tree::Compare("rule", _) => false,
        Tree::Compare(left, right) => {
            let right = match right {
                Right::Text(text) => text,
                Right::Target(name) => match target.get(name) {
                    Some(value) => value,
                    None => return false,
                },
            };
            match *left {
                "role" => roles.iter().any(|role| role.eq_ignore_ascii_case(right)),
                "'p1'" => *right == "p1",
                "\"p2\"" => *right == "p2",
                "5" | "True" => left == right,
                name => caller.get(name) == Some(right),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_expression_means_what_its_definition_says(
        tree in tree(),
        style in prop::collection::vec(any::<u8>(), 1..40),
        roles in prop::sample::subsequence(vec!["Admin", "member", "reader"], 0..=3),
        ours in any::<bool>(),
        admin in any::<bool>(),
    ) {
        let text = written(&tree, &mut style.iter().copied().cycle());
        let rules = serde_json::json!({"it": text, "mine": "project_id:%(project_id)s"}).to_string();
        let policy = of(&[&rules]).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        let mut asking = caller("p1", "u1", &roles);
        asking.is_admin = admin;
        let owner = if ours { ("p1", "u1") } else { ("p2", "u2") };
        let known = HashMap::from([
            ("project_id", "p1"), ("user_id", "u1"), ("user_name", "u1"), ("is_admin", if admin { "True" } else { "False" }),
        ]);
        let target_known = HashMap::from([("project_id", owner.0), ("user_id", owner.1)]);
        let expected = means(&tree, &known, &asking.roles, &target_known);
        prop_assert_eq!(policy.holds(&asking, "it", &target(owner.0, owner.1)), expected, "{}", text);
    }

    #[test]
    fn what_is_printed_reads_as_the_same_tree(tree in tree(), style in prop::collection::vec(any::<u8>(), 1..40)) {
        let check = parser::parse_text(&written(&tree, &mut style.iter().copied().cycle())).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&parser::parse_text(&check.to_string()).map_err(TestCaseError::fail)?, &check, "{}", check);
    }

    #[test]
    fn whatever_is_read_can_be_printed_and_read_again(text in "[()a-c:%'@! ]{0,24}|(not |and |or |\\(|\\)|role:a|x:%\\(y\\)s| |[^ ]:.){0,12}") {
        if let Ok(check) = parser::parse_text(&text) {
            let printed = check.to_string();
            prop_assert_eq!(parser::parse_text(&printed).map_err(TestCaseError::fail)?, check, "{} then {}", text, printed);
        }
    }

    #[test]
    fn a_tree_of_checks_survives_being_written(check in check()) {
        prop_assert_eq!(parser::parse_text(&check.to_string()).map_err(TestCaseError::fail)?, check);
    }
}

/// Trees as the parser makes them.
fn check() -> impl Strategy<Value = Check> {
    let leaf = "(role|rule|[a-z_]{1,5}|'[a-z]{0,3}'|-?[1-9][0-9]{0,3}|True|None):[a-z0-9:%]{0,6}(%\\([a-z]{1,4}\\)s)?[a-z]{0,3}"
        .prop_filter_map("not a check", |text| parser::parse_text(&text).ok());
    let leaf = prop_oneof![Just(Check::Always), Just(Check::Never), leaf];
    leaf.prop_recursive(5, 64, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|c| Check::Not(Box::new(c))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Check::All),
            prop::collection::vec(inner, 2..4).prop_map(Check::Any),
        ]
    })
}
