//! Operations with their descriptions: what is routed is documented, and the other way round.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, Resource, Route, Scope, http::Method, web};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{
        ArrayBuilder, Components, Content, Info, ObjectBuilder, OpenApi, OpenApiBuilder, Paths, Ref, RefOr,
        Required, ResponseBuilder, Schema,
        path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem},
        request_body::RequestBodyBuilder,
        schema::Type,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use crate::http::admin::{
    PREFIX, idempotency,
    page::MOST,
    problem::{Problem, ProblemDetails},
};

/// The name of the security scheme.
const ACCESS_TOKEN: &str = "access_token";

/// An operation as it is described.
pub(super) struct Operation {
    method: Method,
    path: String,
    builder: OperationBuilder,
    is_public: bool,
}

/// The operations added so far.
#[derive(Default)]
pub(super) struct Surface {
    routes: BTreeMap<String, Vec<(Method, Route)>>,
    paths: Paths,
    schemas: BTreeMap<String, RefOr<Schema>>,
}

/// The description as it is sent.
struct Document(web::Bytes);

async fn document(request: HttpRequest) -> HttpResponse {
    let text = request.app_data::<Document>().map(|document| document.0.clone()).unwrap_or_default();
    HttpResponse::Ok().content_type("application/json").body(text)
}

impl Operation {
    /// An operation for operators, at `path` below [`PREFIX`].
    pub(super) fn new(method: Method, path: String, tag: &str, summary: String) -> Self {
        let words = path.replace(['/', '-', '{', '}', '.'], "_");
        let id = format!("{}{}", method.as_str().to_ascii_lowercase(), words.trim_end_matches('_'));
        let builder = OperationBuilder::new().tag(tag).summary(Some(summary)).operation_id(Some(id));
        let inside = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let builder = inside.fold(builder, |builder, name| {
            builder.parameter(parameter(name, ParameterIn::Path, Required::True, "The object's id"))
        });
        Self { method, path, builder, is_public: false }
    }

    /// Needs no access token.
    pub(super) const fn public(mut self) -> Self {
        self.is_public = true;
        self
    }

    /// Lists a piece at a time, narrowed by `F`.
    pub(super) fn listing<F: IntoParams>(mut self) -> Self {
        let limit = format!("At most so many objects, 1 to {MOST}");
        let pages = [
            parameter("limit", ParameterIn::Query, Required::False, &limit),
            parameter("after", ParameterIn::Query, Required::False, "The `next` of the piece before"),
        ];
        let filter = F::into_params(|| Some(ParameterIn::Query));
        self.builder = self.builder.parameters(Some(pages.into_iter().chain(filter)));
        self
    }

    /// May be sent again with the same `Idempotency-Key`.
    pub(super) fn idempotent(self) -> Self {
        let text = "The same key and body get the same answer, and one object, for a day";
        self.header(idempotency::HEADER, Required::False, text)
    }

    /// Heeds `If-Match`.
    pub(super) fn conditional(self, is_required: bool) -> Self {
        let required = if is_required { Required::True } else { Required::False };
        self.header("if-match", required, "The ETag that was read, or * for whatever it is now")
    }

    /// Heeds `If-None-Match`.
    pub(super) fn cached(self) -> Self {
        self.header("if-none-match", Required::False, "An ETag; 304 while the object has it")
    }

    fn header(mut self, name: &str, required: Required, text: &str) -> Self {
        self.builder = self.builder.parameter(parameter(name, ParameterIn::Header, required, text));
        self
    }

    /// Takes a JSON body.
    pub(super) fn takes(mut self, schema: RefOr<Schema>) -> Self {
        let body = RequestBodyBuilder::new()
            .content("application/json", Content::new(Some(schema)))
            .required(Some(Required::True));
        self.builder = self.builder.request_body(Some(body.build()));
        self
    }

    /// Answers with JSON.
    pub(super) fn gives(mut self, status: u16, schema: RefOr<Schema>) -> Self {
        let response = ResponseBuilder::new()
            .description("Done")
            .content("application/json", Content::new(Some(schema)));
        self.builder = self.builder.response(status.to_string(), response.build());
        self
    }

    /// Answers without a body.
    pub(super) fn gives_nothing(mut self) -> Self {
        self.builder = self.builder.response("204", ResponseBuilder::new().description("Done").build());
        self
    }
}

impl Surface {
    /// Routes and documents an operation.
    pub(super) fn add(&mut self, operation: Operation, route: Route) {
        let Operation { method, path, builder, is_public } = operation;
        let problem = self.schema::<ProblemDetails<'_>>();
        let refusal = ResponseBuilder::new()
            .description("A refusal")
            .content("application/problem+json", Content::new(Some(problem)));
        let builder = builder.response("default", refusal.build());
        let scheme = SecurityRequirement::new(ACCESS_TOKEN, std::iter::empty::<String>());
        let builder = if is_public { builder } else { builder.security(scheme) };
        if let Some(kind) = documented(&method) {
            let item = self.paths.paths.entry(format!("{PREFIX}{path}")).or_default();
            item.merge_operations(PathItem::new(kind, builder.build()));
        }
        self.routes.entry(path).or_default().push((method, route));
    }

    /// A reference to the schema of `T`, which is added with all that it refers to.
    pub(super) fn schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        let mut inner = Vec::new();
        T::schemas(&mut inner);
        self.schemas.extend(inner);
        self.schemas.insert(T::name().into_owned(), T::schema());
        RefOr::Ref(Ref::from_schema_name(T::name()))
    }

    /// The same for a patch: no field is required.
    pub(super) fn patch_schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        let mut schema = T::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            object.required.clear();
        }
        let name = format!("{}Patch", T::name().trim_end_matches("Input"));
        self.schemas.insert(name.clone(), schema);
        RefOr::Ref(Ref::from_schema_name(name))
    }

    /// A piece of a list of `item`.
    pub(super) fn list_of(item: &RefOr<Schema>) -> RefOr<Schema> {
        let cursor = utoipa::openapi::schema::SchemaType::from_iter([Type::String, Type::Null]);
        let list = ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("data", ArrayBuilder::new().items(item.clone()))
            .property("next", ObjectBuilder::new().schema_type(cursor))
            .required("data")
            .required("next");
        RefOr::T(Schema::Object(list.build()))
    }

    /// The surface as it is served, its own description included.
    pub(super) fn into_scope(mut self, prefix: &str) -> Scope {
        let any = RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(Type::Object).build()));
        let summary = "This description, as OpenAPI 3.1".to_owned();
        let own = Operation::new(Method::GET, "/openapi.json".to_owned(), "openapi", summary);
        self.add(own.public().gives(200, any), web::get().to(document));
        let text = web::Bytes::from(serde_json::to_vec(&self.document()).unwrap_or_default());
        let scope = web::scope(prefix).app_data(Document(text));
        self.routes.into_iter().fold(scope, |scope, (path, routes)| scope.service(resource(&path, routes)))
    }

    fn document(&mut self) -> OpenApi {
        let info = Info::builder()
            .title("Tollway admin API")
            .version(env!("CARGO_PKG_VERSION"))
            .description(Some("What a Tollway relay serves, to whom, and what it costs. See docs/admin.md."));
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let mut components = Components::new();
        components.schemas = std::mem::take(&mut self.schemas);
        components.add_security_scheme(ACCESS_TOKEN, SecurityScheme::Http(bearer));
        OpenApiBuilder::new()
            .info(info.build())
            .paths(std::mem::take(&mut self.paths))
            .components(Some(components))
            .build()
    }
}

fn resource(path: &str, routes: Vec<(Method, Route)>) -> Resource {
    let allow = routes.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>().join(", ");
    let other = move || {
        let refusal = Problem::method_not_allowed(&allow);
        async { Err::<HttpResponse, _>(refusal) }
    };
    routes
        .into_iter()
        .fold(web::resource(path.to_owned()), |resource, (_, route)| resource.route(route))
        .default_service(web::to(other))
}

fn parameter(name: &str, place: ParameterIn, required: Required, text: &str) -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::String).build();
    let parameter = ParameterBuilder::new().name(name).parameter_in(place).required(required);
    parameter.description(Some(text)).schema(Some(schema)).build()
}

fn documented(method: &Method) -> Option<HttpMethod> {
    [
        (Method::GET, HttpMethod::Get),
        (Method::POST, HttpMethod::Post),
        (Method::PATCH, HttpMethod::Patch),
        (Method::DELETE, HttpMethod::Delete),
    ]
    .into_iter()
    .find_map(|(known, kind)| (known == *method).then_some(kind))
}
