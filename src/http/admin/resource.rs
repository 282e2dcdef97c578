//! The five operations that resources share: list, create, read, change, remove.

use std::{fmt::Display, str::FromStr};

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, header},
    web,
};
use serde::{Serialize, de::DeserializeOwned};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    http::admin::{
        Answer, Desk, PREFIX, etag,
        idempotency::{self, Created},
        input, operator,
        page::Wanted,
        problem::Problem,
        surface::{Operation, Surface},
    },
    store::{Change, Page, RemoveOutcome, Store, StoreError, Tx, UpdateOutcome},
};

/// How often a change that takes any version is tried again when somebody else was faster.
const TRIES: usize = 8;

/// A kind of object that operators list, create, read, change and remove.
pub(super) trait Resource: 'static {
    /// Its plural in paths.
    const PATH: &'static str;
    /// What one is called.
    const NAME: &'static str;
    /// What may refer to one.
    const DEPENDENTS: &'static str;
    /// What a change of one is to the replicas.
    const CHANGE: Change;
    /// Fields that a patch replaces whole.
    const WHOLE: &'static [&'static str] = &[];
    /// Its id.
    type Id: Copy + Display + FromStr;
    /// What narrows a list.
    type Filter: DeserializeOwned + IntoParams;
    /// What can be written.
    type Input: Serialize + DeserializeOwned + ToSchema;
    /// What is shown.
    type View: Serialize + ToSchema;
    /// What is stored.
    type Object;

    /// Its id.
    fn id(object: &Self::Object) -> Self::Id;
    /// The same, bare.
    fn uuid(object: &Self::Object) -> Uuid;
    /// Its version.
    fn version(object: &Self::Object) -> i64;
    /// What would have to be written to make it as it is; what is secret is left out.
    fn input(object: &Self::Object) -> Self::Input;
    /// What is shown of it.
    fn view(object: Self::Object) -> Self::View;
    /// The object that `input` describes: a new one, or the next version of `old`.
    async fn build(
        desk: &Desk,
        input: Self::Input,
        old: Option<&Self::Object>,
    ) -> Result<Self::Object, Problem>;
    /// Reads one.
    async fn lookup(store: &Store, id: Self::Id) -> Result<Option<Self::Object>, StoreError>;
    /// Reads a piece of the list.
    async fn list(store: &Store, filter: &Self::Filter, page: Page) -> Result<Vec<Self::Object>, StoreError>;
    /// Adds one.
    async fn add(tx: &mut Tx, object: &Self::Object) -> Result<(), StoreError>;
    /// Replaces one.
    async fn update(tx: &mut Tx, object: &Self::Object, expected: i64) -> Result<UpdateOutcome, StoreError>;
    /// Removes one.
    async fn remove(tx: &mut Tx, id: Self::Id, expected: Option<i64>) -> Result<RemoveOutcome, StoreError>;

    /// Why the store refused to write `object`, in words for the caller.
    async fn refused(desk: &Desk, object: &Self::Object, error: StoreError) -> Problem {
        let _ = (desk, object);
        error.into()
    }
}

/// Adds the operations to the surface.
pub(super) fn register<R: Resource>(surface: &mut Surface) {
    let (all, one) = (format!("/{}", R::PATH), format!("/{}/{{id}}", R::PATH));
    let view = surface.schema::<R::View>();
    let input = surface.schema::<R::Input>();
    let patch = surface.patch_schema::<R::Input>();
    let describe = |method: Method, path: &str, verb: &str| {
        Operation::new(method, path.to_owned(), R::PATH, format!("{verb} {}", R::NAME))
    };
    let listing = Operation::new(Method::GET, all.clone(), R::PATH, format!("List {}", R::PATH));
    surface.add(listing.listing::<R::Filter>().gives(200, Surface::list_of(&view)), web::get().to(list::<R>));
    surface.add(
        describe(Method::POST, &all, "Create a").idempotent().takes(input).gives(201, view.clone()),
        web::post().to(create::<R>),
    );
    surface.add(
        describe(Method::GET, &one, "Read a").cached().gives(200, view.clone()),
        web::get().to(read::<R>),
    );
    surface.add(
        describe(Method::PATCH, &one, "Change a").conditional(true).takes(patch).gives(200, view),
        web::patch().to(change::<R>),
    );
    surface.add(
        describe(Method::DELETE, &one, "Remove a").conditional(false).gives_nothing(),
        web::delete().to(remove::<R>),
    );
}

/// The id that stands in the path.
///
/// # Errors
/// 404: what is no id names nothing.
pub(super) fn id_in_path<I: FromStr>(request: &HttpRequest, name: &str) -> Result<I, Problem> {
    request.match_info().query("id").parse().map_err(|_| Problem::missing(name))
}

/// The object that the path names.
async fn named<R: Resource>(desk: &Desk, id: R::Id) -> Result<R::Object, Problem> {
    R::lookup(&desk.store, id).await?.ok_or_else(|| Problem::missing(R::NAME))
}

async fn list<R: Resource>(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let wanted = Wanted::<R::Filter>::of(&request)?;
    let rows = R::list(&Desk::of(&request)?.store, &wanted.filter, wanted.page()).await?;
    wanted.answer(rows, R::uuid, R::view)
}

async fn create<R: Resource>(request: HttpRequest, payload: web::Payload) -> Answer {
    let caller = operator(&request).await?;
    let desk = Desk::of(&request)?;
    let (bytes, value) = input::read(&request, payload).await?;
    let input: R::Input = input::decode(&value)?;
    let object = R::build(desk, input, None).await?;
    let created = idempotency::once(desk, (caller.token_id, &request, &bytes), async |tx| {
        if let Err(error) = R::add(tx, &object).await {
            return Err(R::refused(desk, &object, error).await);
        }
        let location = format!("{PREFIX}/{}/{}", R::PATH, R::id(&object));
        Created::new(location, R::version(&object), R::view(object))
    });
    let created = created.await?;
    desk.enforce(R::CHANGE).await;
    created.answer()
}

async fn read<R: Resource>(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let object = named::<R>(Desk::of(&request)?, id_in_path(&request, R::NAME)?).await?;
    if etag::is_known(&request, R::version(&object)) {
        let tag = etag::of(R::version(&object));
        return Ok(HttpResponse::NotModified().insert_header((header::ETAG, tag)).finish());
    }
    shown::<R>(object)
}

#[expect(clippy::unnecessary_wraps, reason = "what every handler ends with")]
fn shown<R: Resource>(object: R::Object) -> Answer {
    let tag = etag::of(R::version(&object));
    Ok(HttpResponse::Ok().insert_header((header::ETAG, tag)).json(R::view(object)))
}

async fn change<R: Resource>(request: HttpRequest, payload: web::Payload) -> Answer {
    operator(&request).await?;
    let desk = Desk::of(&request)?;
    let id = id_in_path(&request, R::NAME)?;
    let expected = etag::required(&request)?;
    let (_, patch) = input::read(&request, payload).await?;
    let mut tries = TRIES;
    loop {
        let old = named::<R>(desk, id).await?;
        expected.check(R::version(&old))?;
        let document = input::merged(&R::input(&old), patch.clone(), R::WHOLE)?;
        let new = R::build(desk, input::decode(&document)?, Some(&old)).await?;
        match replace::<R>(desk, &new, R::version(&old)).await? {
            UpdateOutcome::Updated { .. } => {
                desk.enforce(R::CHANGE).await;
                return shown::<R>(new);
            }
            UpdateOutcome::Missing => return Err(Problem::missing(R::NAME)),
            UpdateOutcome::Stale { current } if tries == 0 => return Err(Problem::stale(current)),
            // Somebody was faster: whether that is in order is for `expected` to say.
            UpdateOutcome::Stale { .. } => tries -= 1,
        }
    }
}

async fn replace<R: Resource>(desk: &Desk, new: &R::Object, old: i64) -> Result<UpdateOutcome, Problem> {
    let mut tx = desk.store.begin().await?;
    match R::update(&mut tx, new, old).await {
        Ok(outcome @ UpdateOutcome::Updated { .. }) => {
            tx.commit().await?;
            Ok(outcome)
        }
        Ok(outcome) => {
            tx.rollback().await?;
            Ok(outcome)
        }
        Err(error) => {
            let _ = tx.rollback().await;
            Err(R::refused(desk, new, error).await)
        }
    }
}

async fn remove<R: Resource>(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let desk = Desk::of(&request)?;
    let id = id_in_path(&request, R::NAME)?;
    let known = match etag::expected(&request) {
        None | Some(etag::Expected::Any) => None,
        Some(expected) => {
            let version = R::version(&named::<R>(desk, id).await?);
            expected.check(version)?;
            Some(version)
        }
    };
    let mut tx = desk.store.begin().await?;
    match R::remove(&mut tx, id, known).await {
        Ok(RemoveOutcome::Removed) => tx.commit().await?,
        refused => {
            let _ = tx.rollback().await;
            return Err(match refused {
                Ok(RemoveOutcome::Stale { current }) => Problem::stale(current),
                Err(StoreError::Reference) => Problem::referenced(R::DEPENDENTS),
                Err(error) => error.into(),
                Ok(_) => Problem::missing(R::NAME),
            });
        }
    }
    desk.enforce(R::CHANGE).await;
    Ok(HttpResponse::NoContent().finish())
}
