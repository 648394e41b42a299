//! Every input of the corpora still returns: what a long run once found stays found.

use std::path::Path;

#[test]
fn every_target_returns_on_its_corpus() {
    for (name, target) in fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut inputs = 0;
        for entry in std::fs::read_dir(&folder).expect("a corpus") {
            target(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
            inputs += 1;
        }
        assert!(inputs >= 10, "{name}: {inputs} inputs");
    }
}
