"""The journal notes that the demo's resources invent."""

import random
import uuid
from datetime import datetime, timedelta
from typing import Any

NOTES_PER_ANSWER = 3
_YEAR = int(timedelta(days=365).total_seconds())
_DOCTORS = 20
_TEXTS = (
    "Blood pressure within the normal range. Next visit in a year.",
    "Complains of a headache in the evenings. Sleep and fluids discussed.",
    "Seasonal allergy. Antihistamine prescribed for the spring.",
    "Follow-up after a sprained ankle: full movement, no pain.",
    "Vaccination against influenza given. No reaction.",
    "Cholesterol slightly raised. Advice on diet; new sample in three months.",
    "Cough for two weeks, lungs clear. To come back if fever appears.",
    "Prescription renewed. No side effects reported.",
    "Referred to physiotherapy for pain in the lower back.",
    "Annual check-up without remarks.",
)


def make_notes(
    resource: str, patient_id: str | None, chance: random.Random, now: datetime
) -> list[dict[str, Any]]:
    """Invent the notes of one answer, with dates in the year before `now`."""
    return [
        {
            "id": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "date": _date(chance, now),
            "caregiverId": f"Caregiver-{resource}",
            "patientId": patient_id,
            "doctorId": f"Doctor-{chance.randint(1, _DOCTORS)}",
            "note": chance.choice(_TEXTS),
        }
        for _ in range(NOTES_PER_ANSWER)
    ]


def _date(chance: random.Random, now: datetime) -> str:
    """Choose a local date-time, to the second and without a zone."""
    moment = now.replace(microsecond=0, tzinfo=None) - timedelta(seconds=chance.randrange(_YEAR))
    return moment.isoformat()
