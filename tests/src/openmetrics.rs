//! A strict reader of the text format of OpenMetrics: what it reads, Prometheus reads too.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

/// What was shown: the value of every series, by its name with its labels sorted.
#[derive(Debug)]
pub struct Shown {
    series: BTreeMap<String, f64>,
}

impl Shown {
    /// The sum of the series of this name whose labels hold all of these.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        let of_name = self.series.iter().filter(|(series, _)| series.split('{').next() == Some(name));
        of_name.filter(|(series, _)| wanted.iter().all(|label| series.contains(label.as_str()))).map(|(_, value)| value).sum()
    }

    /// All series.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.series.keys().map(String::as_str)
    }
}

/// Scrapes an address.
pub async fn scrape(http: &reqwest::Client, url: &str) -> Result<Shown> {
    let answer = http.get(url).send().await.with_context(|| format!("scrape {url}"))?;
    let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    ensure!(answer.status() == 200 && kind.starts_with("application/openmetrics-text; version=1.0.0"), "{} {kind}", answer.status());
    parse(&answer.text().await?)
}

/// Reads a text.
///
/// # Errors
/// For everything that the format does not allow: a sample without its family, a family told twice, a series twice, a counter that does not
/// end in `_total`, buckets that do not grow or do not end with the count, no end.
pub fn parse(text: &str) -> Result<Shown> {
    let mut families: BTreeMap<&str, &str> = BTreeMap::new();
    let mut current = "";
    let mut series = BTreeMap::new();
    let mut buckets: BTreeMap<String, f64> = BTreeMap::new();
    let body = text.strip_suffix("# EOF\n").context("the end is missing")?;
    for line in body.lines() {
        let context = || format!("in the line {line:?}");
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) =
                (words.next().unwrap_or_default(), words.next().with_context(context)?, words.next().unwrap_or_default());
            ensure!(["HELP", "TYPE", "UNIT"].contains(&what), "{}", context());
            if name != current {
                ensure!(!families.contains_key(name), "a family is told twice, {}", context());
                current = name;
                families.insert(name, "unknown");
            }
            if what == "TYPE" {
                ensure!(["counter", "gauge", "histogram", "info"].contains(&rest), "{}", context());
                families.insert(name, rest);
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').with_context(context)?;
        let value: f64 = value.parse().with_context(context)?;
        let (bare, labels) = split(name).with_context(context)?;
        let kind = families.get(current).copied().unwrap_or_default();
        let ending = bare.strip_prefix(current).with_context(context)?;
        ensure!(
            match kind {
                "counter" => ending == "_total",
                "gauge" => ending.is_empty(),
                "histogram" => ["_sum", "_count", "_bucket"].contains(&ending),
                _ => false,
            },
            "a {kind} cannot have it: {line:?}"
        );
        if ending == "_bucket" {
            let others: Vec<&String> = labels.iter().filter(|label| !label.starts_with("le=")).collect();
            let last = buckets.entry(format!("{current}{others:?}")).or_default();
            ensure!(value >= *last, "buckets must grow, {}", context());
            *last = value;
        }
        if ending == "_count" {
            let all: Vec<&String> = labels.iter().collect();
            buckets.insert(format!("count of {current}{all:?}"), value);
        }
        let sorted = labels.join(",");
        ensure!(series.insert(format!("{bare}{{{sorted}}}"), value).is_none(), "a series stands there twice, {}", context());
    }
    for (key, last) in buckets.iter().filter(|(key, _)| !key.starts_with("count of ")) {
        let count = buckets.get(&format!("count of {key}")).with_context(|| format!("no count of {key}"))?;
        ensure!(count == last, "the last bucket of {key} is {last}, the count {count}");
    }
    Ok(Shown { series })
}

/// A name and its labels, sorted.
fn split(name: &str) -> Result<(&str, Vec<String>)> {
    let Some((bare, labels)) = name.split_once('{') else { return Ok((name, Vec::new())) };
    let mut rest = labels.strip_suffix('}').context("no } at the end of labels")?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (key, after) = rest.split_once("=\"").context("a label without a value")?;
        ensure!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "the label {key}");
        let end = (0..after.len()).find(|&at| after.as_bytes()[at] == b'"' && (at == 0 || after.as_bytes()[at - 1] != b'\\'));
        let Some(end) = end else { bail!("the value of {key} does not end") };
        found.push(format!("{key}=\"{}\"", &after[..end]));
        rest = after[end + 1..].trim_start_matches(',');
    }
    found.sort();
    Ok((bare, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# HELP a Help.\n# TYPE a counter\na_total{x=\"1\",b=\"q,\\\"\"} 3\n\
                        # HELP h H.\n# TYPE h histogram\nh_sum 1.5\nh_count 2\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\n# EOF\n";

    #[test]
    fn a_good_text_is_read() {
        let shown = parse(GOOD).expect("good");
        assert_eq!(shown.sum("a_total", &[("x", "1")]), 3.0);
        assert_eq!(shown.sum("a_total", &[("x", "2")]), 0.0);
        assert_eq!(shown.sum("h_count", &[]), 2.0);
    }

    #[test]
    fn a_text_against_the_format_is_refused() {
        for (from, to) in [
            ("# EOF\n", ""),
            ("a_total", "a"),
            ("h_count 2", "h_count 3"),
            ("\"1.0\"} 1", "\"1.0\"} 5"),
            ("h_sum 1.5", "h_sum x"),
            ("# TYPE a counter\n", "# TYPE a counter\nother 1\n"),
            ("h_sum 1.5\n", "h_sum 1.5\nh_sum 1.5\n"),
            ("# EOF\n", "# HELP a again\n# EOF\n"),
        ] {
            let bad = GOOD.replacen(from, to, 1);
            assert_ne!(bad, GOOD);
            assert!(parse(&bad).is_err(), "{bad}");
        }
    }
}
