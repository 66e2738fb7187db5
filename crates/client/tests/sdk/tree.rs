//! What the SDK brings along: whoever links it pays for every crate.

use std::collections::BTreeSet;
use std::process::Command;

/// Crates on one platform, this one and the domain included; half of them are TLS.
const MAX_CRATES: usize = 100;
/// Frameworks and second TLS stacks. `tower-service`, one trait without code, comes with hyper's own client.
const UNWELCOME: [&str; 8] = ["tower", "reqwest", "openssl", "openssl-sys", "native-tls", "ring", "axum", "aws-config"];

#[test]
fn the_tree_of_dependencies_stays_small() {
    let tree = ["tree", "--package", "tollgate-client", "--edges", "normal", "--prefix", "none", "--offline"];
    let told = Command::new(env!("CARGO")).args(tree).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let text = String::from_utf8(told.stdout).unwrap();
    let crates: BTreeSet<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap()))
        .collect();
    assert!(crates.iter().any(|(name, _)| *name == "hyper"), "this is not the tree: {text}");
    let unwelcome: Vec<_> = crates.iter().filter(|(name, _)| UNWELCOME.contains(name)).collect();
    assert!(unwelcome.is_empty(), "{unwelcome:?}");
    assert!(crates.len() <= MAX_CRATES, "{} crates: {crates:?}", crates.len());
}
