//! The cells of a crash matrix: all of them for who has hours (`cargo xtask test --every-cell`), a share for every run of the tests.

use std::fmt::Debug;

use anyhow::{Result, ensure};

/// Carries out what each act has at a moment and says how many cells that was; `run` gives each a world of its own, so that one that fails
/// leaves the others theirs.
///
/// # Errors
/// When any has failed, with all that have.
pub async fn of_each<A: Copy + Debug>(acts: &[A], moment: impl Debug, run: impl AsyncFn(A) -> Result<usize>) -> Result<()> {
    let (mut all, mut failures) = (0, Vec::new());
    for act in acts {
        match run(*act).await {
            Ok(cells) => {
                println!("{moment:?}, {act:?}: {cells} passed");
                all += cells;
            }
            Err(error) => {
                println!("{moment:?}, {act:?}: {error:#}");
                failures.push(format!("{act:?}: {error:#}"));
            }
        }
    }
    // xtask adds these up.
    println!("cells: {all}");
    ensure!(failures.is_empty(), "{failures:#?}");
    Ok(())
}

/// Which cells one moment meets in a run of minutes: every `of`th, over all acts. What it passes by, the next moments meet: each begins at
/// another one.
#[derive(Debug)]
pub struct Share {
    of: usize,
    seen: usize,
}

impl Share {
    /// `begin` is the moment's place among the moments.
    #[must_use]
    pub fn new(of: usize, begin: usize) -> Self {
        Self { of, seen: begin }
    }

    /// Keeps of an act's effects those that are met.
    pub fn keep<E>(&mut self, effects: &mut Vec<E>) {
        effects.retain(|_| {
            self.seen += 1;
            self.seen.is_multiple_of(self.of)
        });
    }
}
