"""DeepMind Lab."""

FAMILY = {"title": "DeepMind Lab, first-person", "packages": ("deepmind_lab",),
          "remedy": "build it from github.com/google-deepmind/lab; there is no wheel"}
