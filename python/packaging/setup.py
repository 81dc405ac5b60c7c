"""The wheel: a pure Python package with the program in it, so it is for one platform and every Python 3.

build_wheel.py lays the files out and calls this. Its variables say what the program is.
"""

import os

from setuptools import find_packages, setup
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel


class ForOnePlatform(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", os.environ["SHARDSIM_WHEEL_PLATFORM"]


setup(
    name="shardsim",
    version=os.environ["SHARDSIM_WHEEL_VERSION"],
    description="Simulates and verifies the parallelism strategies that train large models",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    extras_require={"pandas": ["pandas"]},
    packages=find_packages(include=["shardsim", "shardsim.torch"]),
    package_data={"shardsim": ["py.typed", "bundle/**"], "shardsim.torch": ["native/*"]},
    entry_points={"console_scripts": ["shardsim = shardsim.__main__:main"]},
    classifiers=[
        "Typing :: Typed",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
    ],
    cmdclass={"bdist_wheel": Wheel},
    distclass=ForOnePlatform,
    zip_safe=False,
)
