//! Which management cluster a cluster of the Cluster API driver goes to: what the operator says of each, and the choice. Pure.
//!
//! Known to the API as well, which refuses early what no conductor could do. The choice itself is made by a conductor, once, before anything of
//! the cluster is made: only it knows which management clusters answer.

use crate::json::Labels;

/// The label that names one.
pub const LABEL: &str = "capi_management_cluster";

/// The name of the one that upstream knows, whose kubeconfig has no section of its own.
pub const DEFAULT: &str = "default";

/// What the operator says of a management cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementCluster {
    pub name: String,
    /// Ids of the projects that it serves; empty: all that no other one names.
    pub projects: Vec<String>,
    /// How many clusters it is to have for each one of another of weight 1.
    pub weight: u32,
    /// Clusters at most; 0: as many as there are.
    pub max_clusters: u32,
}

impl ManagementCluster {
    /// One that serves everybody, without limit.
    pub fn unlimited(name: &str) -> Self {
        Self { name: name.to_owned(), projects: Vec::new(), weight: 1, max_clusters: 0 }
    }

    /// Whether a cluster of this project may be on it.
    pub fn serves(&self, project: &str) -> bool {
        self.projects.is_empty() || self.projects.iter().any(|id| id == project)
    }

    fn is_full(&self, placed: i64) -> bool {
        self.max_clusters > 0 && placed >= i64::from(self.max_clusters)
    }
}

/// How a management cluster stands at the moment of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Clusters that it has.
    pub placed: i64,
    /// Why it cannot be asked; none: it can.
    pub trouble: Option<String>,
}

/// What a choice came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The cluster goes to the one of this name.
    On(String),
    /// Not now, for this reason: it may be otherwise soon.
    Wait(String),
    /// The cluster asks for what it cannot have.
    Refused(String),
    /// Those that it could go to have no room.
    Full(String),
}

/// The name that labels ask for; none: any will do.
pub fn wanted(labels: &Labels) -> Option<&str> {
    labels.get(LABEL).map(str::trim).filter(|name| !name.is_empty())
}

/// Whether a label may name this one, for a project where one is known.
///
/// # Errors
/// The rule that it breaks.
pub fn check(all: &[ManagementCluster], name: &str, project: Option<&str>) -> Result<(), String> {
    let Some(named) = all.iter().find(|cluster| cluster.name == name) else {
        let for_project = |cluster: &&ManagementCluster| project.is_none_or(|id| cluster.serves(id));
        return Err(match names(all.iter().filter(for_project)) {
            known if known.is_empty() => "It must name a management cluster, and this cloud has none for the project".to_owned(),
            known => format!("It must name a management cluster of this cloud: {known}"),
        });
    };
    match project {
        Some(id) if !named.serves(id) => Err(format!("It must name a management cluster that serves the project, and {name} does not")),
        _ => Ok(()),
    }
}

/// Chooses: the one that is named, else those that name the project, else those that name none; of several that have room and answer the one
/// that has the fewest clusters for its weight.
///
/// One that alone is possible is chosen whether or not it answers: whoever has no choice waits for it.
pub fn choose(all: &[ManagementCluster], name: Option<&str>, project: &str, standing: impl Fn(&str) -> Standing) -> Choice {
    let candidates: Vec<&ManagementCluster> = match name {
        Some(name) => match check(all, name, Some(project)) {
            Ok(()) => all.iter().filter(|cluster| cluster.name == name).collect(),
            Err(rule) => return Choice::Refused(format!("label {LABEL} = {name}: {rule}")),
        },
        None => {
            let own: Vec<_> = all.iter().filter(|cluster| !cluster.projects.is_empty() && cluster.serves(project)).collect();
            if own.is_empty() { all.iter().filter(|cluster| cluster.projects.is_empty()).collect() } else { own }
        }
    };
    let seen: Vec<(&ManagementCluster, Standing)> = candidates.into_iter().map(|cluster| (cluster, standing(&cluster.name))).collect();
    let with_room: Vec<&(&ManagementCluster, Standing)> = seen.iter().filter(|(cluster, is)| !cluster.is_full(is.placed)).collect();
    match with_room.as_slice() {
        [] if seen.is_empty() => Choice::Refused(format!("no management cluster of this cloud serves project {project}")),
        [] => Choice::Full(format!("no management cluster has room for another cluster: {}", occupied(&seen))),
        [(only, _)] if seen.len() == 1 => Choice::On(only.name.clone()),
        some => {
            let reachable = some.iter().filter(|(_, is)| is.trouble.is_none());
            // a / b < c / d without fractions; the first of equals, in the order of the configuration.
            let least = reachable.min_by(|(a, x), (b, y)| load(x.placed, b.weight).cmp(&load(y.placed, a.weight)));
            match least {
                Some((cluster, _)) => Choice::On(cluster.name.clone()),
                None => Choice::Wait(format!("no management cluster can be asked: {}", troubles(some))),
            }
        }
    }
}

fn load(placed: i64, weight_of_other: u32) -> i128 {
    i128::from(placed) * i128::from(weight_of_other.max(1))
}

fn names<'a>(all: impl Iterator<Item = &'a ManagementCluster>) -> String {
    all.map(|cluster| cluster.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn occupied(seen: &[(&ManagementCluster, Standing)]) -> String {
    seen.iter()
        .map(|(cluster, is)| format!("{} has {} of {}", cluster.name, is.placed, cluster.max_clusters))
        .collect::<Vec<_>>()
        .join(", ")
}

fn troubles(seen: &[&(&ManagementCluster, Standing)]) -> String {
    let said = seen.iter().filter_map(|(cluster, is)| Some(format!("{}: {}", cluster.name, is.trouble.as_deref()?)));
    said.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, projects: &[&str], weight: u32, max_clusters: u32) -> ManagementCluster {
        ManagementCluster { name: name.into(), projects: projects.iter().map(|id| (*id).into()).collect(), weight, max_clusters }
    }

    /// Chooses among these for project `p`: each with its clusters and whether it answers.
    fn choice(all: &[(ManagementCluster, i64, bool)], name: Option<&str>) -> Choice {
        let clusters: Vec<ManagementCluster> = all.iter().map(|(cluster, ..)| cluster.clone()).collect();
        choose(&clusters, name, "p", |name| {
            let (_, placed, answers) = all.iter().find(|(cluster, ..)| cluster.name == name).expect("it is asked of those that there are");
            Standing { placed: *placed, trouble: (!answers).then(|| "no connection".into()) }
        })
    }

    fn on(name: &str) -> Choice {
        Choice::On(name.into())
    }

    #[test]
    fn a_label_names_one_that_is_there_and_serves_the_project() {
        let all = [(one("a", &[], 1, 0), 9, true), (one("b", &[], 1, 0), 0, true), (one("c", &["q"], 1, 0), 0, true)];
        assert_eq!(choice(&all, Some("a")), on("a"));
        for (name, rule) in [("c", "that serves the project, and c does not"), ("d", "of this cloud: a, b")] {
            assert!(
                matches!(choice(&all, Some(name)), Choice::Refused(text) if text.starts_with("label capi_management_cluster = ") && text.contains(rule))
            );
        }
        // It is waited for, as one is that alone is there; but room there must be.
        assert_eq!(choice(&[(one("a", &[], 1, 0), 0, false), (one("b", &[], 1, 0), 0, true)], Some("a")), on("a"));
        let full = choice(&[(one("a", &[], 1, 2), 2, true), (one("b", &[], 1, 0), 0, true)], Some("a"));
        assert!(matches!(full, Choice::Full(text) if text.ends_with("a has 2 of 2")));
        let clusters = all.map(|(cluster, ..)| cluster);
        assert_eq!(check(&clusters, "c", None), Ok(()));
        assert!(check(&clusters, "d", None).is_err_and(|rule| rule.ends_with("a, b, c")));
        assert!(check(&[], "d", None).is_err_and(|rule| rule.contains("has none")));
    }

    #[test]
    fn those_that_name_the_project_come_before_those_for_everybody() {
        let open = one("open", &[], 1, 0);
        assert_eq!(choice(&[(open.clone(), 0, true), (one("own", &["q", "p"], 1, 0), 7, true)], None), on("own"));
        assert_eq!(choice(&[(one("other", &["q"], 1, 0), 0, true), (open.clone(), 7, true)], None), on("open"));
        // What is the project's own is not left because it is full or away.
        assert!(matches!(choice(&[(open.clone(), 0, true), (one("own", &["p"], 1, 1), 1, true)], None), Choice::Full(_)));
        assert_eq!(choice(&[(open, 0, true), (one("own", &["p"], 1, 0), 0, false)], None), on("own"));
        assert!(matches!(choice(&[(one("other", &["q"], 1, 0), 0, true)], None), Choice::Refused(text) if text.ends_with("project p")));
    }

    #[test]
    fn of_several_the_emptiest_for_its_weight_that_answers_and_has_room_is_taken() {
        let (a, b) = (one("a", &[], 1, 0), one("b", &[], 1, 0));
        assert_eq!(choice(&[(a.clone(), 3, true), (b.clone(), 2, true)], None), on("b"));
        assert_eq!(choice(&[(a.clone(), 2, true), (b.clone(), 2, true)], None), on("a"));
        assert_eq!(choice(&[(a.clone(), 3, true), (b.clone(), 2, false)], None), on("a"));
        // Three for each one of the other.
        let heavy = one("b", &[], 3, 0);
        assert_eq!(choice(&[(a.clone(), 1, true), (heavy.clone(), 2, true)], None), on("b"));
        assert_eq!(choice(&[(a.clone(), 1, true), (heavy, 4, true)], None), on("a"));
        let small = one("b", &[], 1, 2);
        assert_eq!(choice(&[(a.clone(), 9, true), (small.clone(), 2, true)], None), on("a"));
        // The one with room is away: it is waited for, and the full one is not overfilled.
        let waits = choice(&[(a.clone(), 9, false), (small.clone(), 2, true)], None);
        assert!(matches!(waits, Choice::Wait(text) if text.ends_with("a: no connection")));
        assert!(
            matches!(choice(&[(a, 0, false), (b, 0, false)], None), Choice::Wait(text) if text.contains("a: no connection; b: no connection"))
        );
        let full = choice(&[(one("a", &[], 1, 4), 5, true), (small, 2, true)], None);
        assert!(matches!(full, Choice::Full(text) if text.ends_with("a has 5 of 4, b has 2 of 2")));
    }

    #[test]
    fn an_empty_label_asks_for_nothing() {
        let labels = |text: &str| Labels([(LABEL.to_owned(), text.to_owned())].into_iter().collect());
        assert_eq!((wanted(&labels(" blue ")), wanted(&labels(" ")), wanted(&Labels::default())), (Some("blue"), None, None));
    }
}
