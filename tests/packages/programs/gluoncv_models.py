"""Networks of gluoncv's model zoo, from parameters that depend on their places alone."""

import sys

import cases
import mxnet as mx
import numpy as np
from gluoncv import model_zoo

CLASSIFIERS = """
resnet18_v1 resnet50_v2 resnest14 se_resnet18_v1 se_resnet18_v2 vgg11 vgg11_bn:64 alexnet:96 densenet121:224
shufflenet_v1:64 shufflenet_v2:64 squeezenet1.0:224 googlenet:224 inceptionv3:299 xception:96 mobilenet0.25
mobilenetv2_0.25 mobilenetv3_large mobilenetv3_small cifar_resnet20_v1:32 cifar_resnet20_v2:32
cifar_wideresnet16_10:32 cifar_resnext29_32x4d:32 resnet18_v1b resnet50_v1c resnet50_v1d resnet50_v1e resnet50_v1s
resnext50_32x4d se_resnext50_32x4d senet_154 darknet53 nasnet_4_1056:96 residualattentionnet56:224
cifar_residualattentionnet56:32 resnet50_v1d_0.11 hrnet_w18_small_v1_c:64 resnet18_v1b_0.89 xception71:96 dla34:64
""".split()
DETECTORS = """
ssd_300_vgg16_atrous_voc:300 ssd_512_resnet50_v1_voc:256 ssd_512_mobilenet1.0_voc:256 ssd_300_mobilenet0.25_voc:256
ssd_300_resnet34_v1b_voc:300 yolo3_darknet53_voc:96 yolo3_mobilenet1.0_coco:96 yolo3_mobilenet0.25_voc:96
center_net_resnet18_v1b_voc:128 center_net_resnet18_v1b_dcnv2_voc:128 center_net_mobilenetv3_small_duc_voc:128
center_net_dla34_voc:128 faster_rcnn_resnet50_v1b_voc:128
doublehead_rcnn_resnet50_v1b_voc:128 mask_rcnn_resnet18_v1b_coco:192
""".split()
SEGMENTERS = """
fcn_resnet50_voc:480 psp_resnet50_ade:480 deeplab_resnet50_ade:480 icnet_resnet50_citys:480 fastscnn_citys:1024
danet_resnet50_citys:240 deeplab_resnet50_citys:480
""".split()
POSES = """
simple_pose_resnet18_v1b:128x96 mobile_pose_resnet18_v1b:128x96 mobile_pose_mobilenetv3_small:128x96
alpha_pose_resnet101_v1b_coco:128x96
""".split()
ACTIONS = """
c3d_kinetics400:1x3x16x112x112 p3d_resnet50_kinetics400:1x3x16x112x112 r2plus1d_resnet18_kinetics400:1x3x16x112x112
i3d_resnet50_v1_kinetics400:1x3x32x64x64 i3d_inceptionv1_kinetics400:1x3x16x224x224
i3d_nl5_resnet50_v1_kinetics400:1x3x16x64x64 slowfast_4x16_resnet50_kinetics400:1x3x36x64x64
""".split()
NO_BASE = (
    "ssd",
    "yolo",
    "center_net",
    "rcnn",
    "fcn",
    "psp",
    "deeplab",
    "icnet",
    "fastscnn",
    "danet",
    "simple_pose",
    "mobile_pose",
    "alpha_pose",
)
ACTION_NAMES = ("ucf101", "kinetics400", "hrnet")


def run(name, shape, options=None):
    if options is None:
        options = {"pretrained_base": False} if any(part in name for part in NO_BASE + ACTION_NAMES) else {}
    net = model_zoo.get_model(name, pretrained=False, **options)
    net.initialize()
    net.hybridize()
    x = cases.ramp(*shape)
    net(x)
    cases.fill(net)
    outputs = net(x)
    return {"names": cases.names(net), "outputs": outputs}


def segment_by_hrnet():
    return run("hrnet_w18_small_v1_s", (1, 3, 480, 480), {})


def track():
    """The tracker's network: a template, then a search area."""
    net = model_zoo.get_model("siamrpn_alexnet_v2_otb15", pretrained=False)
    net.initialize()
    template, area = cases.ramp(1, 3, 127, 127), cases.ramp(1, 3, 287, 287, number=1)
    net(template, area)
    cases.fill(net)
    net.template(template)
    return [*net(template, area), net.track(area)["cls"]]


def depth():
    net = model_zoo.get_model("monodepth2_resnet18_kitti_mono_640x192", pretrained_base=False)
    net.initialize()
    x = cases.ramp(1, 3, 192, 640)
    net(x)
    cases.fill(net)
    return list(net(x))


def camera_motion():
    net = model_zoo.get_model("monodepth2_resnet18_posenet_kitti_mono_640x192", pretrained_base=False)
    net.initialize()
    x = cases.ramp(1, 6, 192, 640)
    net(x)
    cases.fill(net)
    return net(x)


def recognize(module, name, *arguments, shape, **options):
    """A network for actions in frames, without the base that its name in the zoo would download."""

    def case():
        places = __import__("gluoncv.model_zoo.action_recognition." + module, fromlist=[name])
        net = getattr(places, name)(*arguments, pretrained_base=False, **options)
        net.initialize()
        net.hybridize()
        net(cases.ramp(*shape))
        cases.fill(net)
        return net(cases.ramp(*shape))

    return case


def layers():
    """The parts that networks are made of, and what trains and measures them."""
    import gluoncv
    from gluoncv import nn as parts
    from gluoncv.nn.bbox import BBoxCornerToCenter

    boxes = mx.nd.array([[[0, 0, 4, 4], [2, 2, 8, 6]]])
    anchors = mx.nd.array([[[0, 0, 4, 5], [3, 2, 8, 6], [1, 1, 2, 2]]])
    found = [
        BBoxCornerToCenter()(boxes),
        parts.bbox.BBoxCenterToCorner()(boxes),
        parts.bbox.BBoxBatchIOU()(boxes, anchors),
        parts.coder.NormalizedBoxCenterEncoder()(mx.nd.array([[1, 1, -1]]), mx.nd.array([[0, 1, 0]]), anchors, boxes),
        parts.coder.NormalizedBoxCenterDecoder()(cases.ramp(1, 3, 4), BBoxCornerToCenter()(anchors)),
        gluoncv.loss.FocalLoss(num_class=4)(cases.ramp(2, 3, 4), mx.nd.array([[0, 1, 2], [3, 1, 0]])),
        gluoncv.loss.HeatmapFocalLoss()(
            mx.nd.sigmoid(cases.ramp(2, 3, 4)), mx.nd.sigmoid(cases.ramp(2, 3, 4, number=1))
        ),
        parts.matcher.CompositeMatcher([parts.matcher.BipartiteMatcher(), parts.matcher.MaximumMatcher(0.5)])(
            parts.bbox.BBoxBatchIOU()(anchors, boxes)
        ),
        mx.nd.array(gluoncv.utils.bbox_iou(anchors[0].asnumpy(), boxes[0].asnumpy())),
    ]
    metric = gluoncv.utils.metrics.VOC07MApMetric(class_names=["a", "b"])
    labels = mx.nd.array([[[0], [1]]])
    metric.update(boxes, labels, mx.nd.array([[[0.9], [0.4]]]), boxes, labels)
    segmentation = gluoncv.utils.metrics.SegmentationMetric(4)
    segmentation.update(mx.nd.array([[[0, 1], [2, 3]]]), cases.ramp(1, 4, 2, 2))
    return {
        "map": str([round(float(v), 6) for v in metric.get()[1]]),
        "segmentation": str([round(float(v), 6) for v in segmentation.get()]),
        "outputs": found,
    }


def images():
    """The transforms of detectors, classifiers and poses."""
    from gluoncv.data import transforms
    from gluoncv.data.transforms.presets import imagenet, segmentation, ssd, yolo

    picture = mx.nd.array(np.random.RandomState(0).randint(0, 255, (60, 80, 3)).astype("uint8"), dtype="uint8")
    x, whole = ssd.transform_test(picture, 48)
    y, _ = yolo.transform_test(picture, 48)
    boxes = np.array([[1.0, 2, 30, 40, 0], [5, 5, 60, 50, 1]])
    return {
        "outputs": [
            x,
            y,
            imagenet.transform_eval(picture, 64, 32),
            segmentation.test_transform(picture, mx.cpu()),
            transforms.bbox.resize(boxes, (80, 60), (40, 30)),
            transforms.bbox.flip(boxes, (80, 60), flip_x=True),
            transforms.image.resize_long(picture, 40),
            transforms.image.imresize(picture, 20, 30),
        ],
        "shape": str(whole.shape),
    }


def shape_of(extents):
    shape = [int(extent) for extent in extents.split("x")]
    return {1: (1, 3, *shape, *shape), 2: (1, 3, *shape)}.get(len(shape), tuple(shape))


def case(entry):
    name, _, extents = entry.partition(":")
    return name, lambda: run(name, shape_of(extents or "64"))


GROUPS = {
    "classifiers": CLASSIFIERS,
    "detectors": DETECTORS,
    "segmenters": SEGMENTERS,
    "poses": POSES,
    "actions": ACTIONS,
}

if __name__ == "__main__":
    others = {
        "hrnet_w18_small_v1_s": segment_by_hrnet,
        "siamrpn_alexnet_v2_otb15": track,
        "monodepth2_resnet18": depth,
        "monodepth2_resnet18_posenet": camera_motion,
        "ActionRecResNetV1b": recognize("actionrec_resnetv1b", "ActionRecResNetV1b", 18, 10, shape=(2, 3, 64, 64)),
        "ActionRecVGG16": recognize("actionrec_vgg16", "ActionRecVGG16", 10, shape=(1, 3, 224, 224)),
        "ActionRecInceptionV3": recognize(
            "actionrec_inceptionv3", "ActionRecInceptionV3", 10, shape=(3, 3, 299, 299), num_segments=3
        ),
        "layers": layers,
        "images": images,
    }
    if sys.argv[1:2] and sys.argv[1] in GROUPS:
        chosen, others = GROUPS[sys.argv.pop(1)], {}
    else:
        chosen = sum(GROUPS.values(), [])
    cases.run({**dict(case(entry) for entry in chosen), **others})
