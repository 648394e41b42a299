//! Every transaction of every operation × the same moments: what is only written into the database is an effect too.
//!
//! Each operation is carried out once without faults while a relay before MariaDB notes what it stores: claim, steps, what is announced and
//! recorded, the end. Each of these transactions is then met. One that is killed before its end was never asked for; one that is late comes to
//! a server that has given the transaction up, for nobody else can take an operation whose row is locked.

use std::fmt;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use tests::cells;
use tests::commits::{Commits, Door, Meet};
use tests::database::{Database, needed};
use tests::wait::{self, Seen};
use tests::world::Options;

use super::{ACTS, Act, Moment, PATIENCE, Scene, Shape};

/// One that works, and one that takes over.
const CONDUCTORS: usize = 2;
/// What is met where there are minutes.
const FEW: [Act; 3] = [Act::UpdateGroup, Act::Create, Act::Grow];
/// How often a transaction is waited for that has not come.
const TRIES: usize = 3;

/// One transaction: the `nth` that writes these tables.
#[derive(Debug, PartialEq, Eq)]
struct Commit {
    name: String,
    nth: u32,
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.nth)
    }
}

/// What a transaction is called that tells of the progress of a stack.
const PROGRESS: &str = "operation+cluster";

/// A scene whose conductors have doors of their own to the database, by which it is known whose transaction is held.
struct Line {
    scene: Scene,
    commits: Commits,
    database: Database,
    conductors: Vec<(Door, u32)>,
}

#[rstest]
#[tokio::test]
async fn operations_survive_at_their_transactions(
    #[values(Moment::KilledBefore, Moment::KilledDuring, Moment::AnswerLost, Moment::OwnerLate)] moment: Moment,
) -> Result<()> {
    let mut line = Line::start().await?;
    let mut cells = 0;
    for act in FEW {
        let mut commits = line.commits_of(act).await?;
        // A creation does the like for each of the things that it makes.
        commits.retain(|commit| act != Act::Create || commit.nth == 1);
        cells += line.cells(act, &commits, moment).await?;
    }
    ensure!(cells >= 8, "{cells} cells");
    line.scene.world.finish().await
}

#[rstest]
#[tokio::test]
#[ignore = "hours; by `cargo xtask test --every-cell`"]
async fn every_cell_of_transactions(
    #[values(Moment::KilledBefore, Moment::KilledDuring, Moment::KilledAfter, Moment::AnswerLost, Moment::OwnerLate, Moment::EffectLate)]
    moment: Moment,
) -> Result<()> {
    // What a creation that goes on stores would be taken for the deletion's.
    let acts: Vec<Act> = ACTS.into_iter().filter(|act| *act != Act::DeleteInMaking).collect();
    cells::of_each(&acts, moment, async |act| every_cell_of(act, moment).await).await
}

async fn every_cell_of(act: Act, moment: Moment) -> Result<usize> {
    let mut line = Line::start().await?;
    let commits = line.commits_of(act).await?;
    let cells = line.cells(act, &commits, moment).await?;
    line.scene.world.finish().await?;
    Ok(cells)
}

impl Line {
    async fn start() -> Result<Self> {
        let database = Database::create(&needed("MAGNUM_TEST_MYSQL_URL")?).await?;
        let commits = Commits::before(database.address());
        let options = Options { conductors: 0, database: Some(database.clone()), ..Shape::Usual.options() };
        let scene = Scene::start_with(Shape::Usual, options).await?;
        let mut line = Self { scene, commits, database, conductors: Vec::new() };
        for _ in 0..CONDUCTORS {
            let door = line.commits.door().await?;
            let pid = line.start_conductor(&door)?;
            line.conductors.push((door, pid));
        }
        Ok(line)
    }

    /// Starts a conductor that comes to the database by this door; its pid.
    fn start_conductor(&mut self, door: &Door) -> Result<u32> {
        let world = &mut self.scene.world;
        let connection = self.database.connection_by(door.port());
        world.set_conductor_settings(&format!("{}[database]\nconnection = {connection}\n", Shape::Usual.options().conductor));
        world.start_conductor()?;
        world.pids("conductor").pop().context("the conductor just started")
    }

    /// What an operation stores when nothing goes wrong. Twice: how often progress is told and a stack is looked at hangs on the moment.
    async fn commits_of(&mut self, act: Act) -> Result<Vec<Commit>> {
        let (mut found, again) = (self.stored(act).await?, self.stored(act).await?);
        found.retain(|commit| again.contains(commit));
        ensure!(found.len() >= 2, "{act:?} was not even claimed and ended: {found:?}");
        Ok(found)
    }

    async fn stored(&mut self, act: Act) -> Result<Vec<Commit>> {
        let cluster = self.scene.prepare(act).await?;
        let before = self.commits.asked().len();
        let cluster = self.scene.ask(act, cluster).await?;
        self.scene.is_well(act, &cluster).await?;
        let mut found: Vec<Commit> = Vec::new();
        for name in self.commits.asked().into_iter().skip(before) {
            let nth = 1 + u32::try_from(found.iter().filter(|commit| commit.name == name).count())?;
            found.push(Commit { name, nth });
        }
        self.scene.clear(act, &cluster).await?;
        Ok(found)
    }

    /// Meets these transactions; how many have come. Only the first of a name is certain to, unless it tells of progress that a look may find or not.
    async fn cells(&mut self, act: Act, commits: &[Commit], moment: Moment) -> Result<usize> {
        let mut met = 0;
        for commit in commits {
            let is_met = self.tried(act, commit, moment).await.with_context(|| format!("{act:?}, {commit}, {moment:?}"))?;
            ensure!(is_met || commit.nth > 1 || commit.name == PROGRESS, "{act:?} has not come to its transaction {commit}");
            met += usize::from(is_met);
        }
        ensure!(2 * met > commits.len(), "{act:?} has come to {met} of {} transactions", commits.len());
        Ok(met)
    }

    async fn tried(&mut self, act: Act, commit: &Commit, moment: Moment) -> Result<bool> {
        for _ in 0..TRIES {
            if self.cell(act, commit, moment).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// False when the operation has ended without this transaction.
    async fn cell(&mut self, act: Act, commit: &Commit, moment: Moment) -> Result<bool> {
        let cluster = self.scene.prepare(act).await?;
        let meet = match moment {
            Moment::KilledBefore | Moment::EffectLate => Meet::Before,
            Moment::KilledDuring | Moment::KilledAfter | Moment::OwnerLate => Meet::Answer,
            Moment::AnswerLost => Meet::Cut,
        };
        self.commits.meet(&commit.name, commit.nth, meet);
        let cluster = self.scene.ask(act, cluster).await?;
        if moment != Moment::AnswerLost
            && let Some(port) = self.held(&cluster).await?
        {
            self.strike(act, &cluster, moment, port).await?;
        }
        self.scene.is_well(act, &cluster).await?;
        let is_met = self.commits.is_met();
        self.commits.forget();
        self.scene.clear(act, &cluster).await?;
        Ok(is_met)
    }

    /// What happens to the conductor whose transaction is held at this door.
    async fn strike(&mut self, act: Act, cluster: &str, moment: Moment, port: u16) -> Result<()> {
        let at = self.conductors.iter().position(|(door, _)| door.port() == port).context("a conductor of this door")?;
        let owner = self.conductors[at].1;
        match moment {
            Moment::KilledBefore | Moment::KilledDuring | Moment::KilledAfter => {
                if moment == Moment::KilledAfter {
                    self.commits.let_go();
                }
                self.scene.world.kill(owner)?;
                let (door, _) = self.conductors.swap_remove(at);
                let pid = self.start_conductor(&door)?;
                self.conductors.push((door, pid));
            }
            Moment::OwnerLate | Moment::EffectLate => {
                self.scene.world.freeze(owner)?;
                if moment == Moment::OwnerLate {
                    // He has his answer, and does not know yet.
                    self.commits.let_go();
                }
                let settled = self.scene.settled(act, cluster).await;
                self.commits.let_go();
                self.scene.world.thaw(owner)?;
                settled?;
            }
            Moment::AnswerLost => {}
        }
        self.scene.until("nothing to be held", |_| self.commits.held().is_none()).await
    }

    /// Waits for the transaction; the port of the door at which it is held, none when the operation has ended without it.
    async fn held(&self, cluster: &str) -> Result<Option<u16>> {
        wait::until("a transaction to be held", PATIENCE, async || {
            // First: the one that ends the operation may be the one that is held.
            let has_ended = self.scene.world.has_ended(cluster).await?;
            Ok(match self.commits.held() {
                Some(port) => Seen::Yes(Some(port)),
                None if has_ended && !self.commits.is_met() => Seen::Yes(None),
                None => Seen::Instead("none".to_owned()),
            })
        })
        .await
    }
}
