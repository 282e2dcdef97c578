//! A store with a vault, and files to be applied to it.

use std::sync::Arc;

use tollway::{
    app::apply::{ApplyError, Notation, Plan, Source, Tools, plan},
    domain::{
        clock::{SharedEntropy, SystemClock},
        secret::Secret,
    },
    net::{Guard, GuardConfig},
    vault::{MasterKey, OsEntropy, Vault},
};

use crate::store::both::OwnStore;

/// What files are applied to.
pub struct World {
    pub store: OwnStore,
    pub vault: Vault,
    guard: Guard,
}

impl World {
    pub fn new(store: OwnStore) -> Self {
        let entropy: SharedEntropy = Arc::new(OsEntropy);
        let text = Secret::new("bWFzdGVyLWtleS1vZi10aGUtdGVzdC1oYXJuZXNzISE=".into());
        let master = MasterKey::from_base64("the test", &text).unwrap();
        let data_key = Vault::new_data_key(1, &master, &*entropy).unwrap();
        let vault = Vault::open(&master, &[data_key], 1, entropy).unwrap();
        Self { store, vault, guard: Guard::new(GuardConfig::default()) }
    }

    /// What is to be done for these YAML files.
    pub async fn plan(&self, texts: &[&str]) -> Result<Plan, ApplyError> {
        self.plan_files(&texts.iter().map(|text| yaml(text)).collect::<Vec<_>>(), false).await
    }

    pub async fn plan_files(&self, files: &[Source], prune: bool) -> Result<Plan, ApplyError> {
        let tools = Tools {
            store: &self.store,
            vault: &self.vault,
            guard: &self.guard,
            clock: &SystemClock,
            entropy: &OsEntropy,
            environment: &|name| (name == "UPSTREAM_KEY").then(|| "sk-from-the-environment".to_owned()),
        };
        plan(&tools, files, prune).await
    }

    /// Applies YAML files and says what was done, unchanged objects left out.
    pub async fn apply(&self, texts: &[&str]) -> Vec<String> {
        let plan = self.plan(texts).await.expect("sound files");
        plan.carry_out(&self.store).await.expect("nobody else is here");
        changes(&plan)
    }

    /// The problems of wrong files, which change nothing.
    pub async fn problems(&self, files: &[Source]) -> Vec<String> {
        let before = self.store.versions().await.unwrap();
        let refused = self.plan_files(files, false).await;
        assert_eq!(self.store.versions().await.unwrap(), before);
        match refused {
            Err(ApplyError::Refused(problems)) => problems.iter().map(ToString::to_string).collect(),
            other => panic!("not refused: {other:?}"),
        }
    }
}

pub fn yaml(text: &str) -> Source {
    Source { file: "f.yaml".into(), directory: ".".into(), notation: Notation::Yaml, text: text.into() }
}

pub fn toml(text: &str) -> Source {
    Source { file: "f.toml".into(), directory: ".".into(), notation: Notation::Toml, text: text.into() }
}

/// The steps that change something, as they print.
pub fn changes(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(ToString::to_string).filter(|step| !step.starts_with("keep")).collect()
}
