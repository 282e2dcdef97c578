//! The whole catalog in one consistent read.

use crate::{
    domain::{
        key::Key,
        model::{Model, Route},
        provider::Provider,
    },
    store::{
        Store, StoreError,
        keys::{self, KeyRow},
        models::{self, ModelRow},
        providers::{self, ProviderRow},
        routes::{self, RouteRow},
    },
};

/// Everything that the hot path needs of providers and models, as of one version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogRows {
    /// The version that this is.
    pub version: i64,
    /// All providers, disabled ones included.
    pub providers: Vec<Provider>,
    /// All keys, disabled ones included.
    pub keys: Vec<Key>,
    /// All models, disabled ones included.
    pub models: Vec<Model>,
    /// All routes, disabled ones included.
    pub routes: Vec<Route>,
}

impl Store {
    /// The catalog as of one version, each list ordered by id.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], or [`StoreError::BadRow`]: then nothing is loaded, rather than
    /// a part that would route elsewhere.
    pub async fn load_catalog(&self) -> Result<CatalogRows, StoreError> {
        let mut snapshot = self.snapshot().await?;
        let version = writing!(snapshot, conn =>
            sqlx::query_scalar("select version from versions where name = 'catalog'").fetch_one(conn))?;
        let providers: Vec<ProviderRow> =
            writing!(snapshot, conn => sqlx::query_as(providers::ALL).fetch_all(conn))?;
        let keys: Vec<KeyRow> = writing!(snapshot, conn => sqlx::query_as(keys::ALL).fetch_all(conn))?;
        let models: Vec<ModelRow> = writing!(snapshot, conn => sqlx::query_as(models::ALL).fetch_all(conn))?;
        let routes: Vec<RouteRow> = writing!(snapshot, conn => sqlx::query_as(routes::ALL).fetch_all(conn))?;
        snapshot.rollback().await?;
        Ok(CatalogRows {
            version,
            providers: providers.into_iter().map(Provider::try_from).collect::<Result<_, _>>()?,
            keys: keys.into_iter().map(Key::try_from).collect::<Result<_, _>>()?,
            models: models.into_iter().map(Model::try_from).collect::<Result<_, _>>()?,
            routes: routes.into_iter().map(Route::try_from).collect::<Result<_, _>>()?,
        })
    }
}
