"""Where requests can run: pools of replicas, and the models they hold."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models


class Pool(models.Model):
    """Replicas that share lane rules."""

    class Kind(models.TextChoices):
        """Kept for some lanes, or shared and scaled."""

        DEDICATED = "dedicated"
        ELASTIC = "elastic"

    name = models.CharField(max_length=63, unique=True)
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.ELASTIC)
    lanes = models.JSONField(default=list)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ModelDeployment(models.Model):
    """A model of the catalogue, under the public name that callers use."""

    class Kind(models.TextChoices):
        """Tokens that grow step by step, or one pass of a known size."""

        GENERATIVE = "generative"
        FIXED = "fixed"

    class Weight(models.TextChoices):
        """How much of a card one request takes."""

        LIGHT = "light"
        MEDIUM = "medium"
        HEAVY = "heavy"

    name = models.CharField(max_length=200, unique=True)
    weight = models.CharField(max_length=8, choices=Weight.choices, default=Weight.MEDIUM)
    task = models.CharField(max_length=40, default="chat")
    realtime = models.CharField(max_length=8, blank=True, default="")
    offline = models.BooleanField(default=False)
    kind = models.CharField(max_length=12, choices=Kind.choices, default=Kind.GENERATIVE)
    lighter_of = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Replica(models.Model):
    """One model server: its address, what it holds, and how much it takes at once."""

    class Engine(models.TextChoices):
        """The server program, which decides the adapter."""

        VLLM = "vllm"
        SGLANG = "sglang"
        TGI = "tgi"
        LLAMACPP = "llamacpp"
        OIP = "oip"
        OPENAI = "openai"

    class Path(models.TextChoices):
        """Used always, or only when the hot ones do not suffice."""

        HOT = "hot"
        COLD = "cold"

    class ServiceClass(models.TextChoices):
        """How good the hardware behind it is."""

        HIGH = "high"
        MEDIUM = "medium"
        LOW = "low"

    name = models.CharField(max_length=200, unique=True)
    url = models.CharField(max_length=500)
    engine = models.CharField(max_length=10, choices=Engine.choices)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="replicas")
    slots = models.PositiveIntegerField(default=8, validators=[MinValueValidator(1)])
    gpus = models.FloatField(default=1, validators=[MinValueValidator(0)])
    kv_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    service_class = models.CharField(
        max_length=8, choices=ServiceClass.choices, default=ServiceClass.MEDIUM
    )
    least_level = models.PositiveSmallIntegerField(default=0, validators=[MaxValueValidator(9)])
    most_level = models.PositiveSmallIntegerField(default=9, validators=[MaxValueValidator(9)])
    path = models.CharField(max_length=4, choices=Path.choices, default=Path.HOT)
    engine_priority = models.BooleanField(default=False)
    token_file = models.CharField(max_length=500, blank=True, default="")
    metrics_url = models.CharField(max_length=500, blank=True, default="")
    dcgm_url = models.CharField(max_length=500, blank=True, default="")
    kv_events_url = models.CharField(max_length=500, blank=True, default="")
    draining = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    # {public name: name at the server}. Last, since inside the class body it hides the module
    # of the same name.
    models = models.JSONField(default=dict)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
