//! The commands of README.md and docs/first-provider.md, run as they stand against the real server.
//!
//! A comment before a fence says what the test does with it:
//!
//! | comment | the block |
//! |---|---|
//! | `<!-- run -->` | runs in one shell with all the others of the page, in order |
//! | `<!-- run: booked -->` | the same, once the last request is in the books |
//! | `<!-- run: fresh -->` | the same, in another shell beside an empty server |
//! | `<!-- file: NAME -->` | is put into NAME in that server's directory |
//!
//! The `text` block that follows says what was printed: it is compared, ids and the like aside. The
//! pages' model server is a scripted one that answers with the pages' token counts.

use std::{fmt::Write as _, fs, path::PathBuf, process::Output};

use tokio::process::Command;

use super::read;
use crate::harness::{
    server::{Server, Setup, binary},
    upstream::{Script, Upstream, body_has, chat_json, chat_stream},
};

/// A fenced block with the comment before it.
#[derive(Debug, PartialEq)]
struct Block {
    mark: String,
    code: String,
    /// What it prints, as the page says.
    output: Option<String>,
}

/// The marked blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines();
    let mut mark = None;
    let mut is_open = false;
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")) {
            mark = Some(comment.to_owned());
        } else if let Some(language) = line.strip_prefix("```") {
            let code: Vec<_> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            let code = code.join("\n");
            let is_output = is_open && language == "text";
            is_open = mark.is_some();
            match (mark.take(), blocks.last_mut()) {
                (Some(mark), _) => blocks.push(Block { mark, code, output: None }),
                (None, Some(last)) if is_output => last.output = Some(code),
                _ => {}
            }
        } else if !line.is_empty() {
            mark = None;
            is_open = false;
        }
    }
    blocks
}

/// Stands between the outputs of two blocks.
const CUT: &str = "~~~ next block ~~~";
/// Waits until something is booked.
const BOOKED: &str =
    "until get usage-events?tenant_id=$TENANT | jq -e '.data | length > 0' >/dev/null; do sleep 0.1; done";

/// A page's world: the server and the model's server at other addresses than the page says.
struct World {
    server: Server,
    upstream: Upstream,
}

impl World {
    async fn start() -> Self {
        let upstream = Upstream::start();
        let usage = crate::harness::upstream::Usage::new(33, 6);
        let streamed = chat_stream(&["Hello", " there", "!"], usage);
        upstream.when(body_has(r#""stream":true"#), streamed.clone());
        upstream.when(body_has(r#""stream": true"#), streamed);
        upstream.otherwise(move |_| Script::clone(&chat_json("Hello there!", usage)));
        Self { server: Setup::alone().boot().await, upstream }
    }

    fn here(&self, text: &str) -> String {
        text.replace("127.0.0.1:9950", &self.upstream.address().to_string())
            .replace("127.0.0.1:8080", &self.server.address().to_string())
            .replace("gpt-4o-mini", "smollm2")
    }

    /// Runs blocks in one shell and compares what each prints with what its page says.
    async fn run(&self, before: &str, blocks: &[&Block]) {
        let mut script = format!("set -euo pipefail\n{before}\n");
        for block in blocks {
            let wait = if block.mark == "run: booked" { BOOKED } else { "" };
            writeln!(script, "{wait}\n{}\necho '{CUT}'", self.here(&block.code)).unwrap();
        }
        let output = self.shell(&script).await;
        let said = String::from_utf8_lossy(&output.stdout);
        let printed: Vec<_> = said.split(CUT).collect();
        assert!(output.status.success(), "the block after this failed:\n{said}");
        for (block, printed) in blocks.iter().zip(printed) {
            if let Some(expected) = &block.output {
                assert_eq!(masked(printed), masked(expected), "printed by:\n{}", block.code);
            }
        }
    }

    async fn shell(&self, script: &str) -> Output {
        let setup = self.server.setup().command(&[]);
        let own = binary().parent().expect("a directory").display();
        let path = format!("{own}:{}", std::env::var("PATH").expect("a PATH"));
        let mut shell = Command::new("bash");
        shell.env_clear();
        for (name, value) in setup.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        let directory = setup.get_current_dir().expect("a directory");
        shell.env("PATH", path).current_dir(directory).args(["-c", &format!("exec 2>&1\n{script}")]);
        shell.output().await.expect("bash, curl and jq")
    }

    fn directory(&self) -> PathBuf {
        self.server.setup().command(&[]).get_current_dir().expect("a directory").to_owned()
    }
}

/// Without blank edges, and with every id as `…`.
fn masked(text: &str) -> String {
    let is_id = |word: &str| word.split_once('_').is_some_and(|(kind, id)| kind.len() == 3 && id.len() == 32);
    let mut masked = String::new();
    for piece in text.trim().split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        masked += &if is_id(word) { piece.replacen(word, "…", 1) } else { piece.to_owned() };
    }
    masked
}

#[tokio::test]
async fn a_newcomer_gets_from_an_empty_server_to_a_billed_answer_by_rest() {
    let world = World::start().await;
    let first = blocks(&read("docs/first-provider.md"));
    let readme = blocks(&read("README.md"));
    let mut run: Vec<_> =
        first.iter().filter(|block| ["run", "run: booked"].contains(&&*block.mark)).collect();
    assert!(run.len() >= 5, "{run:#?}");
    run.extend(readme.iter().filter(|block| block.mark == "run"));
    let log = world.server.log();
    let token = log.split('"').find(|word| word.starts_with("tw_setup_")).expect("the start prints a token");
    world.run(&format!("SETUP={token}"), &run).await;
    assert_eq!(world.upstream.request_count(), 2, "the page's question and the README's");
}

#[tokio::test]
async fn a_newcomer_sets_up_by_a_file() {
    let world = World::start().await;
    let first = blocks(&read("docs/first-provider.md"));
    for block in &first {
        if let Some(name) = block.mark.strip_prefix("file: ") {
            fs::write(world.directory().join(name), world.here(&block.code)).expect("write a file");
        }
    }
    let run: Vec<_> = first.iter().filter(|block| block.mark == "run: fresh").collect();
    assert_eq!(run.len(), 2, "{run:#?}");
    world.run("", &run).await;
}

#[test]
fn blocks_are_found_with_their_marks_and_outputs() {
    let page = "<!-- run -->\n```sh\na\nb\n```\n\n```text\nc\n```\n\n```sh\nnot marked\n```\n\n```text\nd\n```\n\
                <!-- run: fresh -->\n```sh\ne\n```\n\nwords\n```text\nnot its output\n```\n";
    let block = |mark: &str, code: &str, output: Option<&str>| Block {
        mark: mark.to_owned(),
        code: code.to_owned(),
        output: output.map(str::to_owned),
    };
    assert_eq!(blocks(page), [block("run", "a\nb", Some("c")), block("run: fresh", "e", None)]);
    assert_eq!(masked(" {\"id\":\"key_01a22a8907d17e338043b5b0583056d8\"}\n"), "{\"id\":\"…\"}");
}
