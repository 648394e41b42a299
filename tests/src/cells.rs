//! Every cell of a crash matrix, for who has hours (`cargo xtask test --every-cell`).

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
