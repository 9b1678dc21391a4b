//! The enums of torchvision's pretrained weights. `tests/data/weights.py` writes this file.

/// Weights of models for classification.
pub mod classification {
    use super::super::macros::weights;

    weights! {
        in "models";
        AlexNetWeights = "AlexNet_Weights" for "alexnet", default Imagenet1kV1 of 61_100_840 parameters:
            Imagenet1kV1 "acc@1 56.522, acc@5 79.066 on ImageNet-1K; 61.1 million parameters.";
        ConvNeXtBaseWeights = "ConvNeXt_Base_Weights" for "convnext_base", default Imagenet1kV1 of 88_591_464 parameters:
            Imagenet1kV1 "acc@1 84.062, acc@5 96.87 on ImageNet-1K; 88.6 million parameters.";
        ConvNeXtLargeWeights = "ConvNeXt_Large_Weights" for "convnext_large", default Imagenet1kV1 of 197_767_336 parameters:
            Imagenet1kV1 "acc@1 84.414, acc@5 96.976 on ImageNet-1K; 197.8 million parameters.";
        ConvNeXtSmallWeights = "ConvNeXt_Small_Weights" for "convnext_small", default Imagenet1kV1 of 50_223_688 parameters:
            Imagenet1kV1 "acc@1 83.616, acc@5 96.65 on ImageNet-1K; 50.2 million parameters.";
        ConvNeXtTinyWeights = "ConvNeXt_Tiny_Weights" for "convnext_tiny", default Imagenet1kV1 of 28_589_128 parameters:
            Imagenet1kV1 "acc@1 82.52, acc@5 96.146 on ImageNet-1K; 28.6 million parameters.";
        DenseNet121Weights = "DenseNet121_Weights" for "densenet121", default Imagenet1kV1 of 7_978_856 parameters:
            Imagenet1kV1 "acc@1 74.434, acc@5 91.972 on ImageNet-1K; 8.0 million parameters.";
        DenseNet161Weights = "DenseNet161_Weights" for "densenet161", default Imagenet1kV1 of 28_681_000 parameters:
            Imagenet1kV1 "acc@1 77.138, acc@5 93.56 on ImageNet-1K; 28.7 million parameters.";
        DenseNet169Weights = "DenseNet169_Weights" for "densenet169", default Imagenet1kV1 of 14_149_480 parameters:
            Imagenet1kV1 "acc@1 75.6, acc@5 92.806 on ImageNet-1K; 14.1 million parameters.";
        DenseNet201Weights = "DenseNet201_Weights" for "densenet201", default Imagenet1kV1 of 20_013_928 parameters:
            Imagenet1kV1 "acc@1 76.896, acc@5 93.37 on ImageNet-1K; 20.0 million parameters.";
        EfficientNetB0Weights = "EfficientNet_B0_Weights" for "efficientnet_b0", default Imagenet1kV1 of 5_288_548 parameters:
            Imagenet1kV1 "acc@1 77.692, acc@5 93.532 on ImageNet-1K; 5.3 million parameters.";
        EfficientNetB1Weights = "EfficientNet_B1_Weights" for "efficientnet_b1", default Imagenet1kV2 of 7_794_184 parameters:
            Imagenet1kV1 "acc@1 78.642, acc@5 94.186 on ImageNet-1K; 7.8 million parameters.",
            Imagenet1kV2 "acc@1 79.838, acc@5 94.934 on ImageNet-1K; 7.8 million parameters.";
        EfficientNetB2Weights = "EfficientNet_B2_Weights" for "efficientnet_b2", default Imagenet1kV1 of 9_109_994 parameters:
            Imagenet1kV1 "acc@1 80.608, acc@5 95.31 on ImageNet-1K; 9.1 million parameters.";
        EfficientNetB3Weights = "EfficientNet_B3_Weights" for "efficientnet_b3", default Imagenet1kV1 of 12_233_232 parameters:
            Imagenet1kV1 "acc@1 82.008, acc@5 96.054 on ImageNet-1K; 12.2 million parameters.";
        EfficientNetB4Weights = "EfficientNet_B4_Weights" for "efficientnet_b4", default Imagenet1kV1 of 19_341_616 parameters:
            Imagenet1kV1 "acc@1 83.384, acc@5 96.594 on ImageNet-1K; 19.3 million parameters.";
        EfficientNetB5Weights = "EfficientNet_B5_Weights" for "efficientnet_b5", default Imagenet1kV1 of 30_389_784 parameters:
            Imagenet1kV1 "acc@1 83.444, acc@5 96.628 on ImageNet-1K; 30.4 million parameters.";
        EfficientNetB6Weights = "EfficientNet_B6_Weights" for "efficientnet_b6", default Imagenet1kV1 of 43_040_704 parameters:
            Imagenet1kV1 "acc@1 84.008, acc@5 96.916 on ImageNet-1K; 43.0 million parameters.";
        EfficientNetB7Weights = "EfficientNet_B7_Weights" for "efficientnet_b7", default Imagenet1kV1 of 66_347_960 parameters:
            Imagenet1kV1 "acc@1 84.122, acc@5 96.908 on ImageNet-1K; 66.3 million parameters.";
        EfficientNetV2LWeights = "EfficientNet_V2_L_Weights" for "efficientnet_v2_l", default Imagenet1kV1 of 118_515_272 parameters:
            Imagenet1kV1 "acc@1 85.808, acc@5 97.788 on ImageNet-1K; 118.5 million parameters.";
        EfficientNetV2MWeights = "EfficientNet_V2_M_Weights" for "efficientnet_v2_m", default Imagenet1kV1 of 54_139_356 parameters:
            Imagenet1kV1 "acc@1 85.112, acc@5 97.156 on ImageNet-1K; 54.1 million parameters.";
        EfficientNetV2SWeights = "EfficientNet_V2_S_Weights" for "efficientnet_v2_s", default Imagenet1kV1 of 21_458_488 parameters:
            Imagenet1kV1 "acc@1 84.228, acc@5 96.878 on ImageNet-1K; 21.5 million parameters.";
        GoogLeNetWeights = "GoogLeNet_Weights" for "googlenet", default Imagenet1kV1 of 6_624_904 parameters:
            Imagenet1kV1 "acc@1 69.778, acc@5 89.53 on ImageNet-1K; 6.6 million parameters.";
        InceptionV3Weights = "Inception_V3_Weights" for "inception_v3", default Imagenet1kV1 of 27_161_264 parameters:
            Imagenet1kV1 "acc@1 77.294, acc@5 93.45 on ImageNet-1K; 27.2 million parameters.";
        MaxVitTWeights = "MaxVit_T_Weights" for "maxvit_t", default Imagenet1kV1 of 30_919_624 parameters:
            Imagenet1kV1 "acc@1 83.7, acc@5 96.722 on ImageNet-1K; 30.9 million parameters.";
        MNASNet0_5Weights = "MNASNet0_5_Weights" for "mnasnet0_5", default Imagenet1kV1 of 2_218_512 parameters:
            Imagenet1kV1 "acc@1 67.734, acc@5 87.49 on ImageNet-1K; 2.2 million parameters.";
        MNASNet0_75Weights = "MNASNet0_75_Weights" for "mnasnet0_75", default Imagenet1kV1 of 3_170_208 parameters:
            Imagenet1kV1 "acc@1 71.18, acc@5 90.496 on ImageNet-1K; 3.2 million parameters.";
        MNASNet1_0Weights = "MNASNet1_0_Weights" for "mnasnet1_0", default Imagenet1kV1 of 4_383_312 parameters:
            Imagenet1kV1 "acc@1 73.456, acc@5 91.51 on ImageNet-1K; 4.4 million parameters.";
        MNASNet1_3Weights = "MNASNet1_3_Weights" for "mnasnet1_3", default Imagenet1kV1 of 6_282_256 parameters:
            Imagenet1kV1 "acc@1 76.506, acc@5 93.522 on ImageNet-1K; 6.3 million parameters.";
        MobileNetV2Weights = "MobileNet_V2_Weights" for "mobilenet_v2", default Imagenet1kV2 of 3_504_872 parameters:
            Imagenet1kV1 "acc@1 71.878, acc@5 90.286 on ImageNet-1K; 3.5 million parameters.",
            Imagenet1kV2 "acc@1 72.154, acc@5 90.822 on ImageNet-1K; 3.5 million parameters.";
        MobileNetV3LargeWeights = "MobileNet_V3_Large_Weights" for "mobilenet_v3_large", default Imagenet1kV2 of 5_483_032 parameters:
            Imagenet1kV1 "acc@1 74.042, acc@5 91.34 on ImageNet-1K; 5.5 million parameters.",
            Imagenet1kV2 "acc@1 75.274, acc@5 92.566 on ImageNet-1K; 5.5 million parameters.";
        MobileNetV3SmallWeights = "MobileNet_V3_Small_Weights" for "mobilenet_v3_small", default Imagenet1kV1 of 2_542_856 parameters:
            Imagenet1kV1 "acc@1 67.668, acc@5 87.402 on ImageNet-1K; 2.5 million parameters.";
        RegNetX16GFWeights = "RegNet_X_16GF_Weights" for "regnet_x_16gf", default Imagenet1kV2 of 54_278_536 parameters:
            Imagenet1kV1 "acc@1 80.058, acc@5 94.944 on ImageNet-1K; 54.3 million parameters.",
            Imagenet1kV2 "acc@1 82.716, acc@5 96.196 on ImageNet-1K; 54.3 million parameters.";
        RegNetX1_6GFWeights = "RegNet_X_1_6GF_Weights" for "regnet_x_1_6gf", default Imagenet1kV2 of 9_190_136 parameters:
            Imagenet1kV1 "acc@1 77.04, acc@5 93.44 on ImageNet-1K; 9.2 million parameters.",
            Imagenet1kV2 "acc@1 79.668, acc@5 94.922 on ImageNet-1K; 9.2 million parameters.";
        RegNetX32GFWeights = "RegNet_X_32GF_Weights" for "regnet_x_32gf", default Imagenet1kV2 of 107_811_560 parameters:
            Imagenet1kV1 "acc@1 80.622, acc@5 95.248 on ImageNet-1K; 107.8 million parameters.",
            Imagenet1kV2 "acc@1 83.014, acc@5 96.288 on ImageNet-1K; 107.8 million parameters.";
        RegNetX3_2GFWeights = "RegNet_X_3_2GF_Weights" for "regnet_x_3_2gf", default Imagenet1kV2 of 15_296_552 parameters:
            Imagenet1kV1 "acc@1 78.364, acc@5 93.992 on ImageNet-1K; 15.3 million parameters.",
            Imagenet1kV2 "acc@1 81.196, acc@5 95.43 on ImageNet-1K; 15.3 million parameters.";
        RegNetX400MFWeights = "RegNet_X_400MF_Weights" for "regnet_x_400mf", default Imagenet1kV2 of 5_495_976 parameters:
            Imagenet1kV1 "acc@1 72.834, acc@5 90.95 on ImageNet-1K; 5.5 million parameters.",
            Imagenet1kV2 "acc@1 74.864, acc@5 92.322 on ImageNet-1K; 5.5 million parameters.";
        RegNetX800MFWeights = "RegNet_X_800MF_Weights" for "regnet_x_800mf", default Imagenet1kV2 of 7_259_656 parameters:
            Imagenet1kV1 "acc@1 75.212, acc@5 92.348 on ImageNet-1K; 7.3 million parameters.",
            Imagenet1kV2 "acc@1 77.522, acc@5 93.826 on ImageNet-1K; 7.3 million parameters.";
        RegNetX8GFWeights = "RegNet_X_8GF_Weights" for "regnet_x_8gf", default Imagenet1kV2 of 39_572_648 parameters:
            Imagenet1kV1 "acc@1 79.344, acc@5 94.686 on ImageNet-1K; 39.6 million parameters.",
            Imagenet1kV2 "acc@1 81.682, acc@5 95.678 on ImageNet-1K; 39.6 million parameters.";
        RegNetY128GFWeights = "RegNet_Y_128GF_Weights" for "regnet_y_128gf", default Imagenet1kSwagE2eV1 of 644_812_894 parameters:
            Imagenet1kSwagE2eV1 "acc@1 88.228, acc@5 98.682 on ImageNet-1K; 644.8 million parameters.",
            Imagenet1kSwagLinearV1 "acc@1 86.068, acc@5 97.844 on ImageNet-1K; 644.8 million parameters.";
        RegNetY16GFWeights = "RegNet_Y_16GF_Weights" for "regnet_y_16gf", default Imagenet1kV2 of 83_590_140 parameters:
            Imagenet1kV1 "acc@1 80.424, acc@5 95.24 on ImageNet-1K; 83.6 million parameters.",
            Imagenet1kV2 "acc@1 82.886, acc@5 96.328 on ImageNet-1K; 83.6 million parameters.",
            Imagenet1kSwagE2eV1 "acc@1 86.012, acc@5 98.054 on ImageNet-1K; 83.6 million parameters.",
            Imagenet1kSwagLinearV1 "acc@1 83.976, acc@5 97.244 on ImageNet-1K; 83.6 million parameters.";
        RegNetY1_6GFWeights = "RegNet_Y_1_6GF_Weights" for "regnet_y_1_6gf", default Imagenet1kV2 of 11_202_430 parameters:
            Imagenet1kV1 "acc@1 77.95, acc@5 93.966 on ImageNet-1K; 11.2 million parameters.",
            Imagenet1kV2 "acc@1 80.876, acc@5 95.444 on ImageNet-1K; 11.2 million parameters.";
        RegNetY32GFWeights = "RegNet_Y_32GF_Weights" for "regnet_y_32gf", default Imagenet1kV2 of 145_046_770 parameters:
            Imagenet1kV1 "acc@1 80.878, acc@5 95.34 on ImageNet-1K; 145.0 million parameters.",
            Imagenet1kV2 "acc@1 83.368, acc@5 96.498 on ImageNet-1K; 145.0 million parameters.",
            Imagenet1kSwagE2eV1 "acc@1 86.838, acc@5 98.362 on ImageNet-1K; 145.0 million parameters.",
            Imagenet1kSwagLinearV1 "acc@1 84.622, acc@5 97.48 on ImageNet-1K; 145.0 million parameters.";
        RegNetY3_2GFWeights = "RegNet_Y_3_2GF_Weights" for "regnet_y_3_2gf", default Imagenet1kV2 of 19_436_338 parameters:
            Imagenet1kV1 "acc@1 78.948, acc@5 94.576 on ImageNet-1K; 19.4 million parameters.",
            Imagenet1kV2 "acc@1 81.982, acc@5 95.972 on ImageNet-1K; 19.4 million parameters.";
        RegNetY400MFWeights = "RegNet_Y_400MF_Weights" for "regnet_y_400mf", default Imagenet1kV2 of 4_344_144 parameters:
            Imagenet1kV1 "acc@1 74.046, acc@5 91.716 on ImageNet-1K; 4.3 million parameters.",
            Imagenet1kV2 "acc@1 75.804, acc@5 92.742 on ImageNet-1K; 4.3 million parameters.";
        RegNetY800MFWeights = "RegNet_Y_800MF_Weights" for "regnet_y_800mf", default Imagenet1kV2 of 6_432_512 parameters:
            Imagenet1kV1 "acc@1 76.42, acc@5 93.136 on ImageNet-1K; 6.4 million parameters.",
            Imagenet1kV2 "acc@1 78.828, acc@5 94.502 on ImageNet-1K; 6.4 million parameters.";
        RegNetY8GFWeights = "RegNet_Y_8GF_Weights" for "regnet_y_8gf", default Imagenet1kV2 of 39_381_472 parameters:
            Imagenet1kV1 "acc@1 80.032, acc@5 95.048 on ImageNet-1K; 39.4 million parameters.",
            Imagenet1kV2 "acc@1 82.828, acc@5 96.33 on ImageNet-1K; 39.4 million parameters.";
        ResNet101Weights = "ResNet101_Weights" for "resnet101", default Imagenet1kV2 of 44_549_160 parameters:
            Imagenet1kV1 "acc@1 77.374, acc@5 93.546 on ImageNet-1K; 44.5 million parameters.",
            Imagenet1kV2 "acc@1 81.886, acc@5 95.78 on ImageNet-1K; 44.5 million parameters.";
        ResNet152Weights = "ResNet152_Weights" for "resnet152", default Imagenet1kV2 of 60_192_808 parameters:
            Imagenet1kV1 "acc@1 78.312, acc@5 94.046 on ImageNet-1K; 60.2 million parameters.",
            Imagenet1kV2 "acc@1 82.284, acc@5 96.002 on ImageNet-1K; 60.2 million parameters.";
        ResNet18Weights = "ResNet18_Weights" for "resnet18", default Imagenet1kV1 of 11_689_512 parameters:
            Imagenet1kV1 "acc@1 69.758, acc@5 89.078 on ImageNet-1K; 11.7 million parameters.";
        ResNet34Weights = "ResNet34_Weights" for "resnet34", default Imagenet1kV1 of 21_797_672 parameters:
            Imagenet1kV1 "acc@1 73.314, acc@5 91.42 on ImageNet-1K; 21.8 million parameters.";
        ResNet50Weights = "ResNet50_Weights" for "resnet50", default Imagenet1kV2 of 25_557_032 parameters:
            Imagenet1kV1 "acc@1 76.13, acc@5 92.862 on ImageNet-1K; 25.6 million parameters.",
            Imagenet1kV2 "acc@1 80.858, acc@5 95.434 on ImageNet-1K; 25.6 million parameters.";
        ResNeXt101_32X8DWeights = "ResNeXt101_32X8D_Weights" for "resnext101_32x8d", default Imagenet1kV2 of 88_791_336 parameters:
            Imagenet1kV1 "acc@1 79.312, acc@5 94.526 on ImageNet-1K; 88.8 million parameters.",
            Imagenet1kV2 "acc@1 82.834, acc@5 96.228 on ImageNet-1K; 88.8 million parameters.";
        ResNeXt101_64X4DWeights = "ResNeXt101_64X4D_Weights" for "resnext101_64x4d", default Imagenet1kV1 of 83_455_272 parameters:
            Imagenet1kV1 "acc@1 83.246, acc@5 96.454 on ImageNet-1K; 83.5 million parameters.";
        ResNeXt50_32X4DWeights = "ResNeXt50_32X4D_Weights" for "resnext50_32x4d", default Imagenet1kV2 of 25_028_904 parameters:
            Imagenet1kV1 "acc@1 77.618, acc@5 93.698 on ImageNet-1K; 25.0 million parameters.",
            Imagenet1kV2 "acc@1 81.198, acc@5 95.34 on ImageNet-1K; 25.0 million parameters.";
        ShuffleNetV2X0_5Weights = "ShuffleNet_V2_X0_5_Weights" for "shufflenet_v2_x0_5", default Imagenet1kV1 of 1_366_792 parameters:
            Imagenet1kV1 "acc@1 60.552, acc@5 81.746 on ImageNet-1K; 1.4 million parameters.";
        ShuffleNetV2X1_0Weights = "ShuffleNet_V2_X1_0_Weights" for "shufflenet_v2_x1_0", default Imagenet1kV1 of 2_278_604 parameters:
            Imagenet1kV1 "acc@1 69.362, acc@5 88.316 on ImageNet-1K; 2.3 million parameters.";
        ShuffleNetV2X1_5Weights = "ShuffleNet_V2_X1_5_Weights" for "shufflenet_v2_x1_5", default Imagenet1kV1 of 3_503_624 parameters:
            Imagenet1kV1 "acc@1 72.996, acc@5 91.086 on ImageNet-1K; 3.5 million parameters.";
        ShuffleNetV2X2_0Weights = "ShuffleNet_V2_X2_0_Weights" for "shufflenet_v2_x2_0", default Imagenet1kV1 of 7_393_996 parameters:
            Imagenet1kV1 "acc@1 76.23, acc@5 93.006 on ImageNet-1K; 7.4 million parameters.";
        SqueezeNet1_0Weights = "SqueezeNet1_0_Weights" for "squeezenet1_0", default Imagenet1kV1 of 1_248_424 parameters:
            Imagenet1kV1 "acc@1 58.092, acc@5 80.42 on ImageNet-1K; 1.2 million parameters.";
        SqueezeNet1_1Weights = "SqueezeNet1_1_Weights" for "squeezenet1_1", default Imagenet1kV1 of 1_235_496 parameters:
            Imagenet1kV1 "acc@1 58.178, acc@5 80.624 on ImageNet-1K; 1.2 million parameters.";
        SwinBWeights = "Swin_B_Weights" for "swin_b", default Imagenet1kV1 of 87_768_224 parameters:
            Imagenet1kV1 "acc@1 83.582, acc@5 96.64 on ImageNet-1K; 87.8 million parameters.";
        SwinSWeights = "Swin_S_Weights" for "swin_s", default Imagenet1kV1 of 49_606_258 parameters:
            Imagenet1kV1 "acc@1 83.196, acc@5 96.36 on ImageNet-1K; 49.6 million parameters.";
        SwinTWeights = "Swin_T_Weights" for "swin_t", default Imagenet1kV1 of 28_288_354 parameters:
            Imagenet1kV1 "acc@1 81.474, acc@5 95.776 on ImageNet-1K; 28.3 million parameters.";
        SwinV2BWeights = "Swin_V2_B_Weights" for "swin_v2_b", default Imagenet1kV1 of 87_930_848 parameters:
            Imagenet1kV1 "acc@1 84.112, acc@5 96.864 on ImageNet-1K; 87.9 million parameters.";
        SwinV2SWeights = "Swin_V2_S_Weights" for "swin_v2_s", default Imagenet1kV1 of 49_737_442 parameters:
            Imagenet1kV1 "acc@1 83.712, acc@5 96.816 on ImageNet-1K; 49.7 million parameters.";
        SwinV2TWeights = "Swin_V2_T_Weights" for "swin_v2_t", default Imagenet1kV1 of 28_351_570 parameters:
            Imagenet1kV1 "acc@1 82.072, acc@5 96.132 on ImageNet-1K; 28.4 million parameters.";
        VGG11Weights = "VGG11_Weights" for "vgg11", default Imagenet1kV1 of 132_863_336 parameters:
            Imagenet1kV1 "acc@1 69.02, acc@5 88.628 on ImageNet-1K; 132.9 million parameters.";
        VGG11BNWeights = "VGG11_BN_Weights" for "vgg11_bn", default Imagenet1kV1 of 132_868_840 parameters:
            Imagenet1kV1 "acc@1 70.37, acc@5 89.81 on ImageNet-1K; 132.9 million parameters.";
        VGG13Weights = "VGG13_Weights" for "vgg13", default Imagenet1kV1 of 133_047_848 parameters:
            Imagenet1kV1 "acc@1 69.928, acc@5 89.246 on ImageNet-1K; 133.0 million parameters.";
        VGG13BNWeights = "VGG13_BN_Weights" for "vgg13_bn", default Imagenet1kV1 of 133_053_736 parameters:
            Imagenet1kV1 "acc@1 71.586, acc@5 90.374 on ImageNet-1K; 133.1 million parameters.";
        VGG16Weights = "VGG16_Weights" for "vgg16", default Imagenet1kV1 of 138_357_544 parameters:
            Imagenet1kV1 "acc@1 71.592, acc@5 90.382 on ImageNet-1K; 138.4 million parameters.",
            Imagenet1kFeatures "acc@1 nan, acc@5 nan on ImageNet-1K; 138.4 million parameters.";
        VGG16BNWeights = "VGG16_BN_Weights" for "vgg16_bn", default Imagenet1kV1 of 138_365_992 parameters:
            Imagenet1kV1 "acc@1 73.36, acc@5 91.516 on ImageNet-1K; 138.4 million parameters.";
        VGG19Weights = "VGG19_Weights" for "vgg19", default Imagenet1kV1 of 143_667_240 parameters:
            Imagenet1kV1 "acc@1 72.376, acc@5 90.876 on ImageNet-1K; 143.7 million parameters.";
        VGG19BNWeights = "VGG19_BN_Weights" for "vgg19_bn", default Imagenet1kV1 of 143_678_248 parameters:
            Imagenet1kV1 "acc@1 74.218, acc@5 91.842 on ImageNet-1K; 143.7 million parameters.";
        ViTB16Weights = "ViT_B_16_Weights" for "vit_b_16", default Imagenet1kV1 of 86_567_656 parameters:
            Imagenet1kV1 "acc@1 81.072, acc@5 95.318 on ImageNet-1K; 86.6 million parameters.",
            Imagenet1kSwagE2eV1 "acc@1 85.304, acc@5 97.65 on ImageNet-1K; 86.9 million parameters.",
            Imagenet1kSwagLinearV1 "acc@1 81.886, acc@5 96.18 on ImageNet-1K; 86.6 million parameters.";
        ViTB32Weights = "ViT_B_32_Weights" for "vit_b_32", default Imagenet1kV1 of 88_224_232 parameters:
            Imagenet1kV1 "acc@1 75.912, acc@5 92.466 on ImageNet-1K; 88.2 million parameters.";
        ViTH14Weights = "ViT_H_14_Weights" for "vit_h_14", default Imagenet1kSwagE2eV1 of 633_470_440 parameters:
            Imagenet1kSwagE2eV1 "acc@1 88.552, acc@5 98.694 on ImageNet-1K; 633.5 million parameters.",
            Imagenet1kSwagLinearV1 "acc@1 85.708, acc@5 97.73 on ImageNet-1K; 632.0 million parameters.";
        ViTL16Weights = "ViT_L_16_Weights" for "vit_l_16", default Imagenet1kV1 of 304_326_632 parameters:
            Imagenet1kV1 "acc@1 79.662, acc@5 94.638 on ImageNet-1K; 304.3 million parameters.",
            Imagenet1kSwagE2eV1 "acc@1 88.064, acc@5 98.512 on ImageNet-1K; 305.2 million parameters.",
            Imagenet1kSwagLinearV1 "acc@1 85.146, acc@5 97.422 on ImageNet-1K; 304.3 million parameters.";
        ViTL32Weights = "ViT_L_32_Weights" for "vit_l_32", default Imagenet1kV1 of 306_535_400 parameters:
            Imagenet1kV1 "acc@1 76.972, acc@5 93.07 on ImageNet-1K; 306.5 million parameters.";
        WideResNet101_2Weights = "Wide_ResNet101_2_Weights" for "wide_resnet101_2", default Imagenet1kV2 of 126_886_696 parameters:
            Imagenet1kV1 "acc@1 78.848, acc@5 94.284 on ImageNet-1K; 126.9 million parameters.",
            Imagenet1kV2 "acc@1 82.51, acc@5 96.02 on ImageNet-1K; 126.9 million parameters.";
        WideResNet50_2Weights = "Wide_ResNet50_2_Weights" for "wide_resnet50_2", default Imagenet1kV2 of 68_883_240 parameters:
            Imagenet1kV1 "acc@1 78.468, acc@5 94.086 on ImageNet-1K; 68.9 million parameters.",
            Imagenet1kV2 "acc@1 81.602, acc@5 95.758 on ImageNet-1K; 68.9 million parameters.";
    }
}

/// Weights of models for segmentation.
pub mod segmentation {
    use super::super::macros::weights;

    weights! {
        in "models::segmentation";
        DeepLabV3MobileNetV3LargeWeights = "DeepLabV3_MobileNet_V3_Large_Weights" for "deeplabv3_mobilenet_v3_large", default CocoWithVocLabelsV1 of 11_029_328 parameters:
            CocoWithVocLabelsV1 "miou 60.3, pixel_acc 91.2 on COCO-val2017-VOC-labels; 11.0 million parameters.";
        DeepLabV3ResNet101Weights = "DeepLabV3_ResNet101_Weights" for "deeplabv3_resnet101", default CocoWithVocLabelsV1 of 60_996_202 parameters:
            CocoWithVocLabelsV1 "miou 67.4, pixel_acc 92.4 on COCO-val2017-VOC-labels; 61.0 million parameters.";
        DeepLabV3ResNet50Weights = "DeepLabV3_ResNet50_Weights" for "deeplabv3_resnet50", default CocoWithVocLabelsV1 of 42_004_074 parameters:
            CocoWithVocLabelsV1 "miou 66.4, pixel_acc 92.4 on COCO-val2017-VOC-labels; 42.0 million parameters.";
        FCNResNet101Weights = "FCN_ResNet101_Weights" for "fcn_resnet101", default CocoWithVocLabelsV1 of 54_314_346 parameters:
            CocoWithVocLabelsV1 "miou 63.7, pixel_acc 91.9 on COCO-val2017-VOC-labels; 54.3 million parameters.";
        FCNResNet50Weights = "FCN_ResNet50_Weights" for "fcn_resnet50", default CocoWithVocLabelsV1 of 35_322_218 parameters:
            CocoWithVocLabelsV1 "miou 60.5, pixel_acc 91.4 on COCO-val2017-VOC-labels; 35.3 million parameters.";
        LRASPPMobileNetV3LargeWeights = "LRASPP_MobileNet_V3_Large_Weights" for "lraspp_mobilenet_v3_large", default CocoWithVocLabelsV1 of 3_221_538 parameters:
            CocoWithVocLabelsV1 "miou 57.9, pixel_acc 91.2 on COCO-val2017-VOC-labels; 3.2 million parameters.";
    }
}

/// Weights of models for detection.
pub mod detection {
    use super::super::macros::weights;

    weights! {
        in "models::detection";
        FasterRCNNMobileNetV3Large320FPNWeights = "FasterRCNN_MobileNet_V3_Large_320_FPN_Weights" for "fasterrcnn_mobilenet_v3_large_320_fpn", default CocoV1 of 19_386_354 parameters:
            CocoV1 "box_map 22.8 on COCO-val2017; 19.4 million parameters.";
        FasterRCNNMobileNetV3LargeFPNWeights = "FasterRCNN_MobileNet_V3_Large_FPN_Weights" for "fasterrcnn_mobilenet_v3_large_fpn", default CocoV1 of 19_386_354 parameters:
            CocoV1 "box_map 32.8 on COCO-val2017; 19.4 million parameters.";
        FasterRCNNResNet50FPNWeights = "FasterRCNN_ResNet50_FPN_Weights" for "fasterrcnn_resnet50_fpn", default CocoV1 of 41_755_286 parameters:
            CocoV1 "box_map 37.0 on COCO-val2017; 41.8 million parameters.";
        FasterRCNNResNet50FPNV2Weights = "FasterRCNN_ResNet50_FPN_V2_Weights" for "fasterrcnn_resnet50_fpn_v2", default CocoV1 of 43_712_278 parameters:
            CocoV1 "box_map 46.7 on COCO-val2017; 43.7 million parameters.";
        FCOSResNet50FPNWeights = "FCOS_ResNet50_FPN_Weights" for "fcos_resnet50_fpn", default CocoV1 of 32_269_600 parameters:
            CocoV1 "box_map 39.2 on COCO-val2017; 32.3 million parameters.";
        KeypointRCNNResNet50FPNWeights = "KeypointRCNN_ResNet50_FPN_Weights" for "keypointrcnn_resnet50_fpn", default CocoV1 of 59_137_258 parameters:
            CocoLegacy "box_map 50.6, kp_map 61.1 on COCO-val2017; 59.1 million parameters.",
            CocoV1 "box_map 54.6, kp_map 65.0 on COCO-val2017; 59.1 million parameters.";
        MaskRCNNResNet50FPNWeights = "MaskRCNN_ResNet50_FPN_Weights" for "maskrcnn_resnet50_fpn", default CocoV1 of 44_401_393 parameters:
            CocoV1 "box_map 37.9, mask_map 34.6 on COCO-val2017; 44.4 million parameters.";
        MaskRCNNResNet50FPNV2Weights = "MaskRCNN_ResNet50_FPN_V2_Weights" for "maskrcnn_resnet50_fpn_v2", default CocoV1 of 46_359_409 parameters:
            CocoV1 "box_map 47.4, mask_map 41.8 on COCO-val2017; 46.4 million parameters.";
        RetinaNetResNet50FPNWeights = "RetinaNet_ResNet50_FPN_Weights" for "retinanet_resnet50_fpn", default CocoV1 of 34_014_999 parameters:
            CocoV1 "box_map 36.4 on COCO-val2017; 34.0 million parameters.";
        RetinaNetResNet50FPNV2Weights = "RetinaNet_ResNet50_FPN_V2_Weights" for "retinanet_resnet50_fpn_v2", default CocoV1 of 38_198_935 parameters:
            CocoV1 "box_map 41.5 on COCO-val2017; 38.2 million parameters.";
        SSD300VGG16Weights = "SSD300_VGG16_Weights" for "ssd300_vgg16", default CocoV1 of 35_641_826 parameters:
            CocoV1 "box_map 25.1 on COCO-val2017; 35.6 million parameters.";
        SSDLite320MobileNetV3LargeWeights = "SSDLite320_MobileNet_V3_Large_Weights" for "ssdlite320_mobilenet_v3_large", default CocoV1 of 3_440_060 parameters:
            CocoV1 "box_map 21.3 on COCO-val2017; 3.4 million parameters.";
    }
}

/// Weights of models for videos.
pub mod video {
    use super::super::macros::weights;

    weights! {
        in "models::video";
        MC3_18Weights = "MC3_18_Weights" for "mc3_18", default Kinetics400V1 of 11_695_440 parameters:
            Kinetics400V1 "acc@1 63.96, acc@5 84.13 on Kinetics-400; 11.7 million parameters.";
        MViTV1BWeights = "MViT_V1_B_Weights" for "mvit_v1_b", default Kinetics400V1 of 36_610_672 parameters:
            Kinetics400V1 "acc@1 78.477, acc@5 93.582 on Kinetics-400; 36.6 million parameters.";
        MViTV2SWeights = "MViT_V2_S_Weights" for "mvit_v2_s", default Kinetics400V1 of 34_537_744 parameters:
            Kinetics400V1 "acc@1 80.757, acc@5 94.665 on Kinetics-400; 34.5 million parameters.";
        R2Plus1D18Weights = "R2Plus1D_18_Weights" for "r2plus1d_18", default Kinetics400V1 of 31_505_325 parameters:
            Kinetics400V1 "acc@1 67.463, acc@5 86.175 on Kinetics-400; 31.5 million parameters.";
        R3D18Weights = "R3D_18_Weights" for "r3d_18", default Kinetics400V1 of 33_371_472 parameters:
            Kinetics400V1 "acc@1 63.2, acc@5 83.479 on Kinetics-400; 33.4 million parameters.";
        S3DWeights = "S3D_Weights" for "s3d", default Kinetics400V1 of 8_320_048 parameters:
            Kinetics400V1 "acc@1 68.368, acc@5 88.05 on Kinetics-400; 8.3 million parameters.";
        Swin3DBWeights = "Swin3D_B_Weights" for "swin3d_b", default Kinetics400V1 of 88_048_984 parameters:
            Kinetics400V1 "acc@1 79.427, acc@5 94.386 on Kinetics-400; 88.0 million parameters.",
            Kinetics400Imagenet22kV1 "acc@1 81.643, acc@5 95.574 on Kinetics-400; 88.0 million parameters.";
        Swin3DSWeights = "Swin3D_S_Weights" for "swin3d_s", default Kinetics400V1 of 49_816_678 parameters:
            Kinetics400V1 "acc@1 79.521, acc@5 94.158 on Kinetics-400; 49.8 million parameters.";
        Swin3DTWeights = "Swin3D_T_Weights" for "swin3d_t", default Kinetics400V1 of 28_158_070 parameters:
            Kinetics400V1 "acc@1 77.715, acc@5 93.519 on Kinetics-400; 28.2 million parameters.";
    }
}

/// Weights of models for optical flow.
pub mod optical_flow {
    use super::super::macros::weights;

    weights! {
        in "models::optical_flow";
        RaftLargeWeights = "Raft_Large_Weights" for "raft_large", default CTSkhtV2 of 5_257_536 parameters:
            CTV1 "epe 1.4411 on Sintel-Train-Cleanpass; epe 2.7894 on Sintel-Train-Finalpass; per_image_epe 5.0172, fl_all 17.4506 on Kitti-Train; 5.3 million parameters.",
            CTV2 "epe 1.3822 on Sintel-Train-Cleanpass; epe 2.7161 on Sintel-Train-Finalpass; per_image_epe 4.5118, fl_all 16.0679 on Kitti-Train; 5.3 million parameters.",
            CTSkhtV1 "epe 1.94 on Sintel-Test-Cleanpass; epe 3.18 on Sintel-Test-Finalpass; 5.3 million parameters.",
            CTSkhtV2 "epe 1.819 on Sintel-Test-Cleanpass; epe 3.067 on Sintel-Test-Finalpass; 5.3 million parameters.",
            CTSkhtKV1 "fl_all 5.1 on Kitti-Test; 5.3 million parameters.",
            CTSkhtKV2 "fl_all 5.19 on Kitti-Test; 5.3 million parameters.";
        RaftSmallWeights = "Raft_Small_Weights" for "raft_small", default CTV2 of 990_162 parameters:
            CTV1 "epe 2.1231 on Sintel-Train-Cleanpass; epe 3.279 on Sintel-Train-Finalpass; per_image_epe 7.6557, fl_all 25.2801 on Kitti-Train; 1.0 million parameters.",
            CTV2 "epe 1.9901 on Sintel-Train-Cleanpass; epe 3.2831 on Sintel-Train-Finalpass; per_image_epe 7.5978, fl_all 25.2369 on Kitti-Train; 1.0 million parameters.";
    }
}
