/// The head of [`FCN`], also the auxiliary head of [`DeepLabV3`](super::DeepLabV3).
pub(super) fn fcn_head(channels: usize, num_classes: usize) -> Result<FCNHead> {
    let inner = channels / 4;
    Ok(FCNHead {
        layers: Sequential::new()
            .add(Conv2d::builder(channels, inner, 3).padding(1).bias(false).build()?)
            .add(BatchNorm2d::new(inner)?)
            .add(ReLU::new())
            .add(Dropout::new(0.1)?)
            .add(Conv2d::new(inner, num_classes, 1, 1, 0)?),
    })
}
