//! One module a page.

macro_rules! pages {
    ($($name:ident $path:literal),* $(,)?) => {$(
        #[doc = include_str!(concat!("../../../docs/", $path))]
        mod $name {}
    )*};
}

pages! {
    readme "../README.md",
    introduction "introduction.md",
    comprehensive "guides/comprehensive.md",
    moving_a_script "moving-a-script.md",
    pytorch_to_torsh "pytorch-to-torsh.md",
    errors "errors.md",
    vision "guides/vision.md",
    text "guides/text.md",
    from_ddp "guides/distributed.md",
    distributed "distributed.md",
    where_weights_come_from "guides/where-weights-come-from.md",
    handbook "guides/handbook.md",
    best_practices "guides/best-practices.md",
    engineering "guides/engineering.md",
    performance "guides/performance.md",
    measured "performance.md",
}
