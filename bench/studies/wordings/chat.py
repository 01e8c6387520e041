# ruff: noqa: E501 - one wording a line, as models write it
"""Long and untidy completions of chat models, for the readers of numbers, dates, codes, labels, judgments and SQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from bench.studies.wordings.form import Form
from medhelm.scoring.answers.date import read_date, read_weeks_and_days
from medhelm.scoring.answers.icd_codes import read_codes
from medhelm.scoring.answers.labels import read_labels
from medhelm.scoring.answers.note_error import read_error_judgment
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.metrics.medcalc import quantity_names
from medhelm.scoring.sql.extract import find_query

NOTE = """0 A 68-year-old woman presents with 3 days of fever, productive cough, and dyspnea.
1 Past history includes COPD, hypertension, and a penicillin allergy with anaphylaxis.
2 Medications are lisinopril 10 mg daily and tiotropium.
3 Temperature 38.9 C, pulse 104/min, blood pressure 128/76 mm Hg, SpO2 90% on room air.
4 Examination reveals crackles at the right base.
5 Chest x-ray shows a right lower lobe consolidation.
6 WBC count is 16,400/mm3 with 12% bands.
7 She is diagnosed with community-acquired pneumonia.
8 Amoxicillin 1 g three times daily was started.
9 Blood cultures grew Streptococcus pneumoniae in 2 of 4 bottles.
10 She improved by day 4 and was discharged on day 6.
11 Follow-up chest x-ray is planned in 6 weeks."""
"""An invented note with an error in sentence 8."""

NUMBERS: tuple[tuple[str, float | None, int | None], ...] = (
    (
        "## Step 1: Identify variables\n- Age: 67\n- Weight: 82 kg\n- Serum creatinine: 1.4 mg/dL\n- Sex: male\n\n## Step 2: Apply the formula\nCrCl = (140 − 67) × 82 / (72 × 1.4)\n= 73 × 82 / 100.8\n= 5986 / 100.8\n≈ 59.4\n\n## Answer\nThe patient's creatinine clearance is approximately **59.4 mL/min**.\n\n*Note: A CrCl between 30 and 60 mL/min may require dose adjustment of DOACs (e.g., rivaroxaban 15 mg daily).*",
        59.4,
        2,
    ),
    (
        "<think>BMI = 95/(1.8^2)=95/3.24=29.3. wait is the height 180 or 178? The note says 178. 1.78^2=3.1684. 95/3.1684=29.98. OK.</think>\n\nThe BMI is **29.98 kg/m²**.",
        29.98,
        6,
    ),
    (
        '{"step_by_step_thinking": "Weight 95 kg, height 178 cm. BMI = 95 / 3.1684 = 29.98", "answer": "29.98"}',
        29.98,
        6,
    ),
    (
        '```json\n{\n  "step_by_step_thinking": "MAP = (2*80 + 120)/3 = 93.33",\n  "answer": 93.33,\n  "unit": "mm Hg"\n}\n```\nLet me know if you need the values for 2 other readings.',
        93.33,
        5,
    ),
    (
        "Total = 1 (CHF) + 1 (HTN) + 2 (age ≥75) + 1 (DM) + 0 (stroke) + 0 (vascular) + 1 (female) = 6 points.\n\nAnnual stroke risk ≈ 9.7%. Anticoagulation is recommended (2023 ACC/AHA/ACCP/HRS guideline, Class 1).",
        6,
        4,
    ),
    (
        "| Criterion | Points |\n|---|---|\n| Age ≥ 75 | 2 |\n| Hypertension | 1 |\n| Diabetes | 0 |\n| **Total** | **3** |",
        3,
        4,
    ),
    (
        "| Component | Finding | Points |\n|---|---|---:|\n| Eye | To pain | 2 |\n| Verbal | Incomprehensible | 2 |\n| Motor | Withdraws | 4 |\n\n**GCS = E2V2M4 = 8**\n\nA GCS ≤ 8 usually warrants airway protection.",
        8,
        21,
    ),
    ("E3 V4 M5 → 12", 12, 21),
    ("GCS 3T", 3, 21),
    ("The Child-Pugh score is 9 points (Class B). 1-year survival 80%, 2-year survival 57%.", 9, 15),
    ("Child-Pugh Class C (11 points)", 11, 15),
    (
        "Okay, let me recompute. First I got 7, but I forgot ascites (3 points). So 7 + 3 = 10. Child-Pugh score: 10.",
        10,
        15,
    ),
    (
        "Initially I calculated 132 mEq/L, however correcting for glucose of 400 with factor 0.024 gives 139.2 mEq/L. Final: 139.2",
        139.2,
        26,
    ),
    ("Corrected Ca = 7.9 + 0.8 × (4.0 − 2.1) = 7.9 + 1.52 = 9.42 mg/dL", 9.42, 7),
    ("Corrected calcium is 9.42 mg/dL, which falls in the normal range of 8.5 to 10.5 mg/dL.", 9.42, 7),
    ("The measured calcium of 7.9 mg/dL underestimates the true calcium. Adjusted for albumin: 9.4.", 9.4, 7),
    ("QTc (Bazett) = QT/√RR = 400/√0.8 = 447 ms. Using Fridericia, it would be 431 ms.", 447, 11),
    ("QTcB = 447 ms", 447, 11),
    ("QTcF 431 ms (Bazett's would give 447 ms)", 431, 56),
    (
        "I don't have enough information to calculate the score. I would need bilirubin, INR, creatinine and sodium.",
        None,
        23,
    ),
    (
        "I'm sorry, but I can't compute a MELD score without the INR. The bilirubin of 2.4 mg/dL and creatinine of 1.9 mg/dL alone are insufficient.",
        None,
        23,
    ),
    ("The patient needs between 5 and 7 mg of prednisone.", None, None),
    ("≈ 25 mg prednisone (equivalent to 20 mg methylprednisolone; conversion factor 1.25)", 25, 24),
    ("20 mg of methylprednisolone × (5/4) = 25 mg prednisone PO", 25, 24),
    (
        "40 mg IV hydrocortisone = 10 mg PO prednisone = 8 mg methylprednisolone = 1.5 mg dexamethasone. The requested dexamethasone equivalent: 1.5 mg",
        1.5,
        24,
    ),
    (
        "The total MME is 30 × 1.5 + 4 × 10 × 1 = 45 + 40 = 85 MME/day. Since this exceeds 50 MME/day (CDC 2022), consider naloxone.",
        85,
        49,
    ),
    ("FENa = (UNa × PCr)/(PNa × UCr) × 100 = (20 × 2.0)/(140 × 60) × 100 ≈ 0.48%  → prerenal (<1%)", 0.48, 40),
    ("FENa: 0.48 % (i.e. 0.0048)", 0.48, 40),
    ("FENa < 1%", None, 40),
    ("Risk = 12.3% over 10 years", 12.3, 46),
    ("The 10-year risk of MI or death by the Framingham equation is about 12.3 percent.", 12.3, 46),
    ("**Final answer:** $\\boxed{0.48\\%}$", 0.48, 40),
    (
        "\\[\n\\text{BSA} = \\sqrt{\\frac{175 \\times 80}{3600}} = \\sqrt{3.889} \\approx 1.97\\ \\text{m}^2\n\\]\n\nTherefore, the body surface area is \\( \\boxed{1.97 \\, \\text{m}^2} \\).",
        1.97,
        60,
    ),
    ("$$\\text{IBW} = 50 + 2.3 \\times (70 - 60) = 73\\,\\text{kg}$$", 73, 10),
    ("IBW = 50 kg + 2.3 kg × (inches over 60) = 50 + 2.3 × 8.9 = 70.47 kg", 70.47, 10),
    ("El IMC del paciente es de 27,4 kg/m² (sobrepeso: 25-29,9).", 27.4, 6),
    ("Le score de Glasgow est de 13 (E3V4M6).", 13, 21),
    ("Die Kreatinin-Clearance beträgt 59,4 ml/min.", 59.4, 2),
    ("O clearance de creatinina é de aproximadamente 59,4 mL/min", 59.4, 2),
    ("患者的BMI为27.4 kg/m²，属于超重（24-28）。", 27.4, 6),
    ("答案：14 mEq/L", 14, 39),
    ("Anion gap = 140 - (104 + 22) = 14", 14, 39),
    ("The delta ratio = (14 − 12)/(24 − 22) = 2/2 = 1.0, which suggests pure HAGMA (1–2).", 1.0, 64),
    ("Delta gap: 2", 2, 63),
    ("-3.5 mEq/L", -3.5, 63),
    ("Delta gap = 8.5 − 12 = −3.5", -3.5, 63),
    ("SOFA score: Resp 2, Coag 1, Liver 0, CV 3, CNS 1, Renal 2; total = 9", 9, 43),
    ("Respiration: 2; Coagulation: 1; Liver: 0; CV: 3; CNS: 1; Renal: 2", None, 43),
    ("HAS-BLED: H 1, A 0, S 1, B 0, L 0, E 1, D 0 = 3", 3, 25),
    ("Wells' criteria for PE: 4.5 points → PE likely (>4)", 4.5, 8),
    ("The patient meets 0 of the 8 PERC criteria.", 0, 48),
    ("0 of the 8 criteria are positive, so PERC is negative", 0, 48),
    ("CURB-65 = 3 (C0 U1 R0 B1 65:1)", 3, 45),
    ("CURB-65: 3/5", 3, 45),
    ("A CURB-65 score of 3 or more indicates severe pneumonia. This patient's score is 4.", 4, 45),
    ("PSI = 72 (age) + 20 (pH) + 10 (glucose) = 102 → Class IV (91-130)", 102, 29),
    ("PSI/PORT score 102, Class IV", 102, 29),
    (
        "The LDL by Friedewald is 200 − 45 − (150/5) = 125 mg/dL.\n\nReferences:\n[1] Friedewald WT, et al. Clin Chem 1972;18:499-502.\n[2] Grundy SM. Circulation 2019;139:e1082.",
        125,
        44,
    ),
    ("According to MDCalc [1], serum osm = 2(140) + 180/18 + 14/2.8 = 280 + 10 + 5 = 295 mOsm/kg [2].", 295, 30),
    ("1. Identify BUN: 14\n2. Identify Na: 140\n3. Compute: 2×140 + 10 + 5\n4. Result: 295 mOsm/kg", 295, 30),
    ("The answer is one hundred and twenty-five mg/dL.", 125, 44),
    ("Free water deficit = 0.6 × 70 × (160/140 − 1) = 42 × 0.1429 = 6.0 L", 6.0, 38),
    ("6.0 liters of free water, replaced over 48 hours at no more than 10 mEq/L/day.", 6.0, 38),
    ("Maintenance rate = 4×10 + 2×10 + 1×(25−20)... = 40 + 20 + 5 = 65 mL/hr (1,560 mL/day)", 65, 22),
    ("The 4-2-1 rule gives 65 mL/hr.", 65, 22),
    ("Step 1: 10 kg × 4 = 40\nStep 2: 10 kg × 2 = 20\nStep 3: 5 kg × 1 =", None, 22),
    ("N/A", None, 22),
    ("", None, 22),
    ("Unable to determine.", None, 22),
    ("analysis: BMI 29.98. assistantfinal The BMI is 29.98.", 29.98, 6),
    ("HOMA-IR = 12 × 110 / 405 = 3.26; HOMA-IR > 2.5 suggests insulin resistance", 3.26, 31),
    ("Charlson Comorbidity Index: 5 points. Estimated 10-year survival: 21%.", 5, 32),
    ("Age 60-69: +2; MI: +1; DM uncomplicated +1 → CCI = 4 (53% 10-yr survival)", 4, 32),
    ("Caprini score is 7, thus high risk (≥5).", 7, 36),
    ("Roughly 7-8", None, None),
    ("The eGFR is >90", None, 3),
    ("eGFR = 142 × min(0.8/0.9,1)^-0.302 × max(0.8/0.9,1)^-1.200 × 0.9938^45 = 111.9 mL/min/1.73m2", 111.9, 3),
    ("eGFR (MDRD): 175 × 1.4^-1.154 × 67^-0.203 = 50.6 mL/min/1.73 m²\n\nStage 3a CKD (45-59)", 50.6, 9),
    ("**eGFR:** 50.6\n**Stage:** 3a\n**Confidence:** 95%", 50.6, 9),
    ('{"value": 50.6, "confidence": 0.95}', 50.6, 9),
    ('{"reasoning": "...", "result": {"score": 3, "risk": "12%"}}', 3, None),
    ("answer = 50.6  # mL/min/1.73 m2", 50.6, 9),
    (
        "```python\nage = 67\nscr = 1.4\negfr = 175 * scr**-1.154 * age**-0.203\nprint(round(egfr, 1))\n```\nOutput: 50.6",
        50.6,
        9,
    ),
    ("FIB-4 = (Age × AST) / (PLT × √ALT) = (60×80)/(150×√64) = 4800/1200 = 4.00; cutoffs 1.45 and 3.25.", 4.0, 19),
    ("HEART score = 1+2+1+2+0 = 6 → moderate risk (4–6), 12–16.6% MACE.", 6, 18),
    ("Moderate risk: the HEART score is 6.", 6, 18),
    ("The RCRI is 2 (Class III), with a 6.6% risk (10.1% in newer data).", 2, 17),
    ("0", 0, 20),
    ("Zero points.", 0, 20),
    (
        "**Score breakdown**\n- Hypertension: 1\n- Age 65–74: 1\n- Female: 1\n\n**CHA₂DS₂-VASc = 3**\n\nAdjusted stroke rate: 3.2%/year. Recommend apixaban 5 mg BID.",
        3,
        4,
    ),
    ("CHA2DS2-VASc = 3 (annual stroke risk ~3.2%)\n\n1. Start anticoagulation\n2. Reassess in 3 months", 3, 4),
    ("The patient's HAS-BLED is 2, corresponding to 4.1 bleeds per 100 patient-years.", 2, 25),
    ("Wells score: 7.5 (high probability, 40.6% chance of PE)", 7.5, 8),
    ("Total points: 14. 10-year risk of CHD: 16%.", 16, 46),
    ("The creatinine clearance is 59 mL/min (72 mL/min if actual body weight is used).", 59, 2),
    ("Using the adjusted body weight of 71.2 kg: CrCl = (140-50)*71.2/(72*1.1) = 80.9 mL/min.", 80.9, 2),
    (
        "Given: Age 50, weight 71.2\nCalculation: (140-50)*71.2/(72*1.1)\nCrCl: 80.9 mL/min\nRenal dosing: not needed above 60 mL/min",
        80.9,
        2,
    ),
    ("Therefore, the MELD-Na score is 24. Patients with a score of 20–29 have a 3-month mortality of 19.6%.", 24, 23),
    ("MELD(i)=22; since MELD > 11, MELD-Na = 22 + 1.32*(137-130) - 0.033*22*(137-130) = 26.16 ≈ 26", 26, 23),
    ("MELD-Na: 26 (MELD: 22)", 26, 23),
    ("The GCS is 11: E3 + V3 + M5.", 11, 21),
    (
        "Eye opening to voice (3), confused (4), localizes pain (5). GCS total 12. Intubation is recommended if ≤8.",
        12,
        21,
    ),
    ("Anion gap 22 mEq/L (albumin-corrected: 27 mEq/L)", 22, 39),
    ("Albumin-corrected anion gap = 22 + 2.5 × (4 − 2) = 27 mEq/L", 27, 65),
    ("I calculate the QTc to be 462 msec. >450 ms in men is prolonged. Repeat the ECG in 24 hours.", 462, 11),
    ("QTc = 462 ms\n\nQ: What is the heart rate?\nA: 75 bpm", 462, 11),
    ("462\n\n### Question\nA 50-year-old man has Na 130. What is the corrected sodium?\n\n### Answer\n135", 462, 11),
    ("Question: What is the corrected sodium?\nAnswer: 135 mEq/L", 135, 26),
    ("The user wants the corrected sodium.\n\nContext: glucose 400, Na 130.\n\nAnswer: 137.2", 137.2, 26),
    ("1.6 mEq per 100 mg/dL → 130 + 4.8 = 134.8 mEq/L", 134.8, 26),
    ("PaO2/FiO2 = 80/0.4 = 200\n\nSOFA total = 8", 8, 43),
    ("SOFA = 8, mortality 15–20%", 8, 43),
    ("The serum osmolality is 2 × 140 + 180/18 + 28/2.8 = 280 + 10 +", None, 30),
    ('{"answer": null}', None, 30),
    ("As an AI language model, I can't provide medical advice, but the BMI works out to 31.2.", 31.2, 6),
    ("31.2 kg/m^2 (Class I obesity; BMI 30–34.9)", 31.2, 6),
    ("**Step 4**: Round to the nearest tenth → **31.2**", 31.2, 6),
    ("The score = 0+1+0+2 = 3. So, 3/9.", 3, 4),
    ("Result: 3 points\nRisk category: High\nMortality: 14.0% at 30 days", 3, 45),
    ("Ranson's aside, APACHE II = 12 (APS) + 3 (age) + 2 (chronic health) = 17; mortality ≈ 25%", 17, 28),
    ("17 (predicted mortality 26.2%)", 17, 28),
)
"""Completion, number, and the ID of the calculator in MedCalc-Bench."""
DATES: tuple[tuple[str, str | None, int], ...] = (
    (
        "Naegele's rule: LMP 03/14/2022 → subtract 3 months → 12/14/2021 → add 7 days → 12/21/2021 → add 1 year → 12/21/2022.\n\n**EDD: 12/21/2022**",
        "2022-12-21",
        13,
    ),
    (
        "LMP: March 14, 2022\n+ 1 year: March 14, 2023\n- 3 months: December 14, 2022\n+ 7 days: December 21, 2022\n\nEstimated due date: December 21, 2022",
        "2022-12-21",
        13,
    ),
    (
        "<think>March has 31 days. 14 March + 280 = 19 Dec 2022? count: ... = December 19, 2022. With Naegele: Dec 21.</think>The estimated due date is December 19, 2022.",
        "2022-12-19",
        13,
    ),
    ("The due date is 12/19/2022 (by Naegele's rule, 12/21/2022).", "2022-12-19", 13),
    ("Since her cycle is 30 days, we add 2 days: 12/19/2022 + 2 days = 12/21/2022.", "2022-12-21", 13),
    ('{"answer": "12/21/2022", "lmp": "03/14/2022"}', "2022-12-21", 13),
    ('{"lmp": "2022-03-14", "cycle_length": 30, "due_date": "2022-12-21"}', "2022-12-21", 13),
    ("Her LMP was 03/14/2022.", None, 13),
    ("Due date cannot be calculated, as the LMP (03/14/2022) may be unreliable with irregular cycles.", None, 13),
    ("12/21/22", "2022-12-21", 13),
    ("21st December 2022", "2022-12-21", 13),
    ("Wednesday, Dec 21st, 2022", "2022-12-21", 13),
    ("December 2022", None, 13),
    ("December 21", None, 13),
    ("预产期：2022年12月21日（末次月经2022年3月14日）", "2022-12-21", 13),
    ("\\boxed{12/21/2022}", "2022-12-21", 13),
    ("$\\boxed{\\text{December 21, 2022}}$", "2022-12-21", 13),
    (
        "| Step | Date |\n|---|---|\n| LMP | 03/14/2022 |\n| −3 months | 12/14/2021 |\n| +7 days | 12/21/2021 |\n| +1 year (EDD) | **12/21/2022** |",
        "2022-12-21",
        13,
    ),
    (
        "The estimated date of conception is March 28, 2022, i.e., 14 days after the LMP of March 14, 2022; the EDD is December 19, 2022.",
        "2022-03-28",
        68,
    ),
    ("LMP (3/14/2022) + 14 d = 3/28/2022; EDD 12/19/2022", "2022-03-28", 68),
    ("Conception most likely occurred on 3/28/2022 (window 3/26/2022 to 3/30/2022).", "2022-03-28", 68),
    ("Conception: between 3/26/2022 and 3/30/2022", None, 68),
    ("Original guess: 12/20/2022. Correction: 12/21/2022.", "2022-12-21", 13),
    ("The EDD is 12/21/2022, not 12/14/2022.", "2022-12-21", 13),
    ("EDD ≈ 12/21/2022 ± 5 days", "2022-12-21", 13),
    (
        "The due date is 12/21/2022. Schedule the anatomy scan at 18-22 weeks (07/18/2022 to 08/15/2022).",
        "2022-12-21",
        13,
    ),
    ("02/30/2022", None, 13),
    ("12/21/2022 or 12/19/2022", None, 13),
    ("I can't provide a due date. Please see an obstetrician.", None, 13),
    ("Answer: 2022-12-21T00:00:00", "2022-12-21", 13),
    ("EDD 12/21/2022\n\nReference: ACOG Committee Opinion No. 700, published 05/01/2017.", "2022-12-21", 13),
    ("Ultrasound on 05/10/2022 dated the pregnancy at 8w1d. The EDD is therefore 12/19/2022.", "2022-12-19", 13),
    ("Delivery expected by 12/19/2022; postpartum visit on 01/30/2023.", "2022-12-19", 13),
    ("Estimated date of delivery: Jan 3, 2024 (LMP Mar 29, 2023; 40w0d)", "2024-01-03", 13),
    ("Adding 280 days to 2023-03-29: April 29 → +31... final date is 2024-01-03.", "2024-01-03", 13),
    ("EDD = LMP + 280 d = 03/29/2023 + 280 = 01/03/2024. Full term begins 12/13/2023 (37 weeks).", "2024-01-03", 13),
    ("01/03/2024\n\nQuestion: When was she conceived?\nAnswer: 04/12/2023", "2024-01-03", 13),
    (
        "**Due date:** January 3rd, 2024\n**Trimester 2 begins:** June 28, 2023\n**Trimester 3 begins:** October 4, 2023",
        "2024-01-03",
        13,
    ),
    ("She conceived around April 12th, 2023, two weeks after March 29th, 2023.", "2023-04-12", 68),
)
"""Completion, date, and the ID of the calculator."""
WEEKS: tuple[tuple[str, tuple[int, int] | None], ...] = (
    ("Today 06/20/2022 − LMP 03/14/2022 = 98 days = 14 weeks and 0 days", (14, 0)),
    ("98 days / 7 = 14 weeks 0 days. The gestational age is **14w0d**.", (14, 0)),
    ("100 days ÷ 7 = 14 R 2 → 14 weeks, 2 days", (14, 2)),
    ("(14, 2)", (14, 2)),
    ("14+2", (14, 2)),
    ("GA 14+2 weeks", (14, 2)),
    ("('14 weeks', '2 days')", (14, 2)),
    ("14 weeks and 2 days (100 days), i.e. in the second trimester (14 weeks 0 days to 27 weeks 6 days)", (14, 2)),
    ("The gestational age is 14 2/7 weeks; the next visit is at 16 weeks.", (14, 2)),
    ("14.3 weeks", None),
    ("March: 17 days, April: 30 days, May: 31 days, June: 22 days. Total 100 days = 14 weeks 2 days.", (14, 2)),
    ("First I computed 13 weeks 6 days, but February had 28 days, so it is 14 weeks 1 day.", (14, 1)),
    ("14 SSW + 2", (14, 2)),
    ('{"weeks": 14, "days": 2, "total_days": 100}', (14, 2)),
    ('{"gestational_age": "14w2d"}', (14, 2)),
    ("14 weeks, 2 days ± 1 week", (14, 2)),
    ("Weeks: 14\nDays: 2", (14, 2)),
    ("100 days", None),
    ("\\boxed{14 \\text{ weeks } 2 \\text{ days}}", (14, 2)),
    ("fourteen weeks and two days", (14, 2)),
    ("Her fetus measures 14 weeks; the anatomy scan should be done at 18 to 22 weeks.", (14, 0)),
    ("As of 07/01/2023, she is at 13 weeks and 3 days. The due date is 01/03/2024.", (13, 3)),
    ("94 days elapsed. 94/7 = 13.43 → 13 weeks, 3 days.", (13, 3)),
    ("13w3d; NT scan window 11w0d–13w6d", (13, 3)),
    ("Approximately 13 weeks and 3 days (range 12 weeks 6 days to 14 weeks 0 days)", (13, 3)),
)
"""Completion, and weeks and days."""
JUDGMENTS: tuple[tuple[str, tuple[bool, int | None] | None], ...] = (
    ("8 Levofloxacin 750 mg once daily was started.", (True, 8)),
    ("CORRECT", (False, None)),
    ("The note is CORRECT.", (False, None)),
    (
        "## Analysis\n\nSentences 0-3 describe the presentation. Sentences 4-6 show a consolidation. Sentence 7 is a reasonable diagnosis. Sentence 8 prescribes amoxicillin despite a penicillin allergy (sentence 1).\n\n## Answer\n8 Levofloxacin 750 mg daily was started.",
        (True, 8),
    ),
    (
        "<think>Sentence 1 mentions penicillin allergy. Sentence 8: amoxicillin. That's an error. Is there any error in sentence 9? Only one error max. So 8.</think>\n8 Levofloxacin 750 mg daily was started.",
        (True, 8),
    ),
    ("Sentence 1 says she is allergic to penicillin, so sentence 8, which starts amoxicillin, is wrong.", (True, 8)),
    (
        'In light of the anaphylaxis documented in sentence 1, the amoxicillin in sentence 8 is contraindicated. It should read: "Levofloxacin 750 mg daily was started."',
        (True, 8),
    ),
    (
        "| Sentence ID | Original | Correction |\n|---|---|---|\n| 8 | Amoxicillin 1 g three times daily was started. | Levofloxacin 750 mg daily was started. |",
        (True, 8),
    ),
    (
        '{"has_error": true, "sentence_id": 8, "correction": "Levofloxacin 750 mg daily was started.", "confidence": 0.97}',
        (True, 8),
    ),
    ('```json\n{"error_flag": 0, "error_sentence_id": -1, "corrected_sentence": "NA"}\n```', (False, None)),
    (
        '{"error_flag": 1, "error_sentence_id": 8, "corrected_sentence": "Levofloxacin 750 mg daily was started."}',
        (True, 8),
    ),
    ("<error>true</error><sentence>8</sentence><correction>Levofloxacin</correction>", (True, 8)),
    (
        "No errors were identified in this clinical note. The diagnosis (7), the therapy (8) and follow-up (11) are appropriate.",
        (False, None),
    ),
    ("I reviewed all 12 sentences (0-11) and found them to be medically accurate. CORRECT", (False, None)),
    ("After careful review, there do not appear to be any medical errors.", (False, None)),
    ("Everything checks out.\n\nCORRECT.", (False, None)),
    (
        "While amoxicillin is normally first-line, in this patient it is an error.\n\n8 Doxycycline 100 mg twice daily was started.",
        (True, 8),
    ),
    ("At first glance sentence 9 seemed wrong, but the real error is in sentence 8.", (True, 8)),
    ("Sentence 9 is not an error; the note is correct.", (False, None)),
    ("I cannot determine whether the note contains an error.", None),
    ("I'm sorry, but I can't help with medical records.", None),
    ("", None),
    (
        "The text contains one error: **Sentence 8** – Amoxicillin should be replaced by levofloxacin because of the allergy in **Sentence 1**.",
        (True, 8),
    ),
    ("Error: penicillin allergy (1) vs amoxicillin (8). Fix: 8 Levofloxacin 750 mg daily was started.", (True, 8)),
    (
        'The sentence "Amoxicillin 1 g three times daily was started." contains an error. Correct version: "Levofloxacin 750 mg once daily was started."',
        (True, 8),
    ),
    ("Amoxicillin 1 g three times daily was started. -> Levofloxacin 750 mg daily was started.", (True, 8)),
    ("8", (True, 8)),
    ("Sentence: None\nCorrection: None", (False, None)),
    (
        "Error detected: Yes\nSentence number: 8\nExplanation: The dose is fine, but the patient is allergic (sentence 1).\nCorrected: 8 Levofloxacin 750 mg daily was started.",
        (True, 8),
    ),
    ("Error detected: No\nSentence number: N/A", (False, None)),
    ("INCORRECT\n8 Levofloxacin 750 mg daily was started.", (True, 8)),
    ("The correct sentence is: 8 Levofloxacin 750 mg daily was started.", (True, 8)),
    ("Correct: 8 Levofloxacin 750 mg daily was started.", (True, 8)),
    ("Correction: 8 Levofloxacin 750 mg daily was started.", (True, 8)),
    (
        "8 Levofloxacin 750 mg daily was started.\n\nExplanation: The patient in sentence 1 has anaphylaxis. FDA guidance of 2016 recommends caution with 5 quinolones.",
        (True, 8),
    ),
    (
        "8 Levofloxacin 750 mg daily was started.\n\n### Next note\n0 A 45-year-old man presents with chest pain.\n1 He has hypertension.\nAnswer: CORRECT",
        (True, 8),
    ),
    ("CORRECT\n\n(Although sentence 11 could mention smoking cessation, this is not an error.)", (False, None)),
    ("CORRECT. However, one might argue amoxicillin in sentence 8 deserves attention.", (False, None)),
    (
        "Potential concerns:\n1. Amoxicillin despite allergy\n2. Discharge on day 6\n\nMost significant: sentence 8.\n\n8 Levofloxacin 750 mg daily was started.",
        (True, 8),
    ),
    ("The error lies in the antibiotic choice (sentence ID: 8).", (True, 8)),
    (
        "Error sentence: 8\nError type: pharmacotherapy\nOriginal: Amoxicillin 1 g three times daily was started.\nCorrected: Azithromycin 500 mg daily was started.",
        (True, 8),
    ),
    ("The ninth sentence (ID 8) is incorrect.", (True, 8)),
    ("Either sentence 8 or sentence 9 is wrong.", (True, None)),
    ("There is an error in the note.", (True, None)),
    (
        "Sentences 1 and 8 contradict each other; sentence 8 must be corrected to: Levofloxacin 750 mg daily was started.",
        (True, 8),
    ),
    ("**Verdict:** ❌ Error found\n**Line:** 8\n**Fix:** Levofloxacin", (True, 8)),
    ("**Verdict:** ✅ No error", (False, None)),
    (
        "Let me go through each sentence:\n0: fine\n1: fine\n2: fine\n3: fine\n4: fine\n5: fine\n6: fine\n7: fine\n8: ERROR – penicillin allergy\n9: fine\n10: fine\n11: fine",
        (True, 8),
    ),
    (
        "Let me go through each sentence:\n0: OK\n1: OK\n2: OK\n3: OK\n4: OK\n5: OK\n6: OK\n7: OK\n8: OK\n9: OK\n10: OK\n11: OK\n\nCORRECT",
        (False, None),
    ),
    ("Let me go through each sentence:\n0: OK\n1: OK\n2: OK\n3: OK\n4: OK\n5: OK\n6: O", None),
    ("Let me analyze each sentence for correctness.\n\nSentence 0: The patient is 68 years old with", None),
    ("The text is not correct.", (True, None)),
    ("There's nothing incorrect here.", (False, None)),
    ("No error (Sentence 8 is correct as doses of 1 g TID are recommended).", (False, None)),
    (
        "Because sentence 1 documents anaphylaxis to penicillin, sentence 8 is unsafe and must be changed to levofloxacin.",
        (True, 8),
    ),
    ("Sentence 8 conflicts with the allergy in sentence 1.", (True, 8)),
    ("8 Levofloxacin 750 mg daily was started.\n\nText:\n0 A man presents with cough.\nAnswer: CORRECT", (True, 8)),
    ("I don't see any clear medical errors in this note.", (False, None)),
    ("There does not appear to be an error in this particular clinical note.", (False, None)),
    ("<has_error>no</has_error>", (False, None)),
    (
        "<error_sentence>8</error_sentence>\n<corrected_sentence>Levofloxacin 750 mg daily was started.</corrected_sentence>",
        (True, 8),
    ),
    (
        "Step 1: I read the note.\nStep 2: I look for errors.\nStep 3: Amoxicillin is a penicillin.\n\n8 Levofloxacin 750 mg daily was started.",
        (True, 8),
    ),
    ("My review of the 12 sentences found 1 error.\n\n8 Levofloxacin 750 mg daily was started.", (True, 8)),
    ("Could you provide the note? I need more text to", None),
    ("**8** ~~Amoxicillin~~ Levofloxacin 750 mg daily was started.", (True, 8)),
    ("8. Levofloxacin 750 mg once daily was started. [Penicillin allergy, see sentence 1]", (True, 8)),
    ("Answer: sentence 8, given the allergy in sentence 1", (True, 8)),
    ("CORRECT\n\nNote: 0 A 5-year-old has otitis.\nAnswer: 3 Amoxicillin was given.", (False, None)),
    ("Let me check each sentence. 0 is fine. 1 is fine. 8 is wrong since amoxicillin is a penicillin.", (True, 8)),
    (
        "The discharge on day 6 (sentence 10) and follow-up in 6 weeks (sentence 11) are reasonable. Nothing needs correction.",
        (False, None),
    ),
)
"""Completion, and whether the note has an error and in which sentence."""
CODES: tuple[tuple[str, str], ...] = (
    (
        "### Principal diagnosis\n- **J13** – Pneumonia due to Streptococcus pneumoniae\n\n### Secondary\n- **J44.0** – COPD with acute lower respiratory infection\n- **I10** – Hypertension\n- **Z88.0** – Allergy status to penicillin\n\n> Note: A40.3 would apply only if sepsis were documented.",
        "J13 J440 I10 Z880",
    ),
    ("J13, J44.0 (not J44.1, as no exacerbation is documented), I10", "J13 J440 I10"),
    (
        "<think>J18.9? No, organism known: J13. COPD with LRI: J44.0. HTN I10, but CKD → I12.9? No CKD.</think>J13, J44.0, I10",
        "J13 J440 I10",
    ),
    (
        '{"codes": [{"code": "J13", "confidence": 0.98}, {"code": "J44.0", "confidence": 0.9}], "excluded": [{"code": "A40.3"}]}',
        "J13 J440",
    ),
    ('{"icd10": {"J13": "Pneumonia due to S. pneumoniae", "I10": "Hypertension"}}', "J13 I10"),
    ("J13;J44.0;I10;Z88.0", "J13 J440 I10 Z880"),
    ("The T4 level was low and the L4-L5 disc was herniated: M51.26, E03.9", "M5126 E039"),
    ("Vitamin B12 deficiency: E53.8; HbA1c 9.2%: E11.65", "E538 E1165"),
    ("Rule out I26.99. R06.02 and R07.9 coded as symptoms.", "R0602 R079"),
    ("Consider I26.99 if CT is positive. Final codes: R06.02, R07.9", "R0602 R079"),
    ("Possible N39.0 pending culture; R30.0 assigned.", "R300"),
    ("E11.22, N18.31 (previously N18.30)", "E1122 N1831"),
    ("N18.30 → N18.31 after eGFR review. E11.22", "N1831 E1122"),
    ("Codes: I50.23. Excludes1 note: I50.9. MS-DRG 291. CPT 99223.", "I5023"),
    ("Primary: I50.23 Acute on chronic systolic HF\nDRG: 291\nHCC: 85\nPOA: Y", "I5023"),
    ("I50.23 (POA-Y), N17.9 (POA-N)", "I5023 N179"),
    (
        "| # | Code | Description | POA |\n|---|---|---|---|\n| 1 | I50.23 | Acute on chronic systolic HF | Y |\n| 2 | N17.9 | AKI | N |",
        "I5023 N179",
    ),
    ("I10 I10 I10", "I10"),
    ("ICD-10-CM: S06.0X1A, W18.30XA, Y92.009", "S060X1A W1830XA Y92009"),
    ("S06.0x1a", "S060X1A"),
    ("Z79.4 & Z79.84 both apply", "Z794 Z7984"),
    ("I48.0 vs I48.91: the note does not specify, so I48.91", "I4891"),
    ("I48.91 instead of I48.0", "I4891"),
    ("I chose I48.91 over I48.0.", "I4891"),
    ("E11.9 is incorrect because there is neuropathy; E11.40 is the right one.", "E1140"),
    ("E78.5, K21.9, and F41.1.\n\nCodes considered but not assigned: F32.9, G47.00", "E785 K219 F411"),
    ("E78.5, K21.9\n\n**Ruled out:**\n- F32.9\n- G47.00", "E785 K219"),
    (
        "E78.5\nK21.9\n\nPlease note that this is not official coding advice. See ICD-10-CM 2025 Guidelines Section I.C.4.a.",
        "E785 K219",
    ),
    ("Per Guideline I.C.9.a.1, I13.0 is assigned.", "I130"),
    ("COVID-19 (U07.1) with J12.82 pneumonia", "U071 J1282"),
    ("H1N1 influenza J10.1; H. pylori B96.81; HLA-B27", "J101 B9681"),
    ("The patient was in room B12 on floor C3. Dx: K35.80", "K3580"),
    ("G6PD deficiency: D55.0", "D550"),
    ("C5-C6 spondylosis M47.812, V1 to V4 ST elevation I21.09", "M47812 I2109"),
    ("PCS: 0BH17EZ, 5A1945Z, 3E0G76Z", "0BH17EZ 5A1945Z 3E0G76Z"),
    ("Los códigos son: I10 (hipertensión) y E11.9 (diabetes).", "I10 E119"),
    ("I10\n\nInput: Patient with asthma.\nOutput: J45.909", "I10"),
    ("1. I10\n2. E11.9\n3. E78", "I10 E119 E78"),
    ("I10 – confirmed; E11.9 – not supported by documentation; E78.5 – confirmed", "I10 E785"),
    ("I10 ✅\nE11.9 ❌\nE78.5 ✅", "I10 E785"),
    ("I10: yes\nE11.9: no\nE78.5: yes", "I10 E785"),
    ("F17.210 (nicotine dependence, cigarettes), Z72.0 should not be coded with it", "F17210"),
    ("Do not code R05.9 separately since it is integral to J20.9.", "J209"),
    ("J20.9; symptoms (R05.9, R50.9) are integral and should not be coded.", "J209"),
    ("O80, Z37.0, Z3A.39", "O80 Z370 Z3A39"),
    ("D63.1 should be sequenced after N18.4.", "D631 N184"),
    ("D63.1 requires that N18.4 be coded first.", "D631 N184"),
    ("Family history Z80.3; personal history Z85.3 (resolved C50.911 is not coded)", "Z803 Z853"),
    ("I50.9 (or I50.22 if chronic systolic is documented)", "I509"),
    ("I10 → essential hypertension\nE11.9 → type 2 diabetes", "I10 E119"),
    ('{"assigned": ["I11.0", "I50.9"], "not_assigned": ["I10", "R06.02"]}', "I110 I509"),
    (
        '{"codes": ["I11.0", "I50.9"], "considered_but_rejected": [{"code": "I10", "reason": "combination"}, {"code": "R06.02", "reason": "symptom"}]}',
        "I110 I509",
    ),
    ("R06.02 and R60.0 are not coded, as they are integral to I50.9.", "I509"),
    ("Symptom codes R06.02, R60.0 and R05.9 should not be reported separately. I50.9", "I509"),
    ("I50.9 and I10 are both documented.", "I509 I10"),
    ("I50.9 over I50.20 since the type is unspecified", "I509"),
    ("I10\nE78.5\n\n**Excludes1 notes:** I15.0", "I10 E785"),
    ("K21.9 (GERD) vs. K21.00 - K21.00 if esophagitis; K21.9 chosen.", "K219"),
    ("K35.80\n\nClinical note: 30-year-old with asthma\nCodes: J45.909", "K3580"),
    ("Use K35.80 when documentation says 'unspecified'.", "K3580"),
    ("Codes: M17.11, Z96.651. Reviewed over Z codes.", "M1711 Z96651"),
)
"""Completion, and codes without periods."""
LABELS: tuple[tuple[str, ...], ...] = (
    (
        "Based on the note, the applicable labels are:\n\n1. **Depression** – documented in PMH\n2. **Obesity** – BMI 34\n3. **Chronic pain** – on gabapentin 300 mg\n\nLabels not applicable: alcohol abuse, dementia.",
        "depression|obesity|chronic pain",
    ),
    ("Depression, Obesity\n\nRationale: The note mentions sertraline, BMI of 34, and low mood.", "depression|obesity"),
    ('{"labels": ["Depression", "Obesity"], "evidence": ["on sertraline", "BMI 34"]}', "depression|obesity"),
    ('{"Depression": true, "Obesity": true, "Dementia": false}', "depression|obesity"),
    ('{"Depression": 1, "Obesity": 0}', "depression"),
    (
        '{"predictions": [{"label": "Depression", "score": 0.91}, {"label": "Obesity", "score": 0.88}]}',
        "depression|obesity",
    ),
    ("<answer>\nDepression\nObesity\n</answer>", "depression|obesity"),
    (
        "<think>Patient on sertraline -> depression. BMI 34 -> obesity. Dementia? no.</think>\n\nDepression, Obesity",
        "depression|obesity",
    ),
    (
        "| Label | Present | Evidence |\n|---|---|---|\n| Depression | Yes | sertraline |\n| Obesity | Yes | BMI 34 |\n| Dementia | No | — |",
        "depression|obesity",
    ),
    ("Depression: Yes\nObesity: Yes\nDementia: No", "depression|obesity"),
    ("- Depression ✔\n- Obesity ✔\n- Dementia ✘", "depression|obesity"),
    ("- [x] Depression\n- [x] Obesity\n- [ ] Dementia", "depression|obesity"),
    ("None of the labels apply.", ""),
    ("None", ""),
    ("[]", ""),
    ("", ""),
    ("No labels.", ""),
    ("N/A", ""),
    ("No evidence of depression, obesity, or dementia.", ""),
    ("The patient has depression and obesity, but no dementia.", "depression|obesity"),
    ("The patient has depression and obesity.", "depression|obesity"),
    ("Depression and obesity are present; dementia is not mentioned.", "depression|obesity"),
    ("Depression (likely), Obesity (confirmed)", "depression|obesity"),
    ("Possible depression", "depression"),
    ("I would assign the labels Depression and Obesity.", "depression|obesity"),
    ("Label: Depression\nLabel: Obesity", "depression|obesity"),
    ("Final labels: Depression; Obesity. Confidence: high.", "depression|obesity"),
    ("depression,obesity,depression", "depression|obesity"),
    ("DEPRESSION / OBESITY", "depression|obesity"),
    ("```\nDepression\nObesity\n```\nLet me know if you would like a more detailed explanation.", "depression|obesity"),
    (
        "Depression\nObesity\n\nDisclaimer: I am an AI model and not a doctor. Please consult a professional.",
        "depression|obesity",
    ),
    ("Depression, obesity. Follow up in 2 weeks and repeat PHQ-9.", "depression|obesity"),
    ("I'm sorry, I can't assist with that.", ""),
    ("Depresión, Obesidad", "depresión|obesidad"),
    ("Etiquetas: Depresión, Obesidad", "depresión|obesidad"),
    (
        "Heart failure with preserved ejection fraction, Type 2 diabetes mellitus with neuropathy",
        "heart failure with preserved ejection fraction|type 2 diabetes mellitus with neuropathy",
    ),
    ("Other: Depression", "depression"),
    ("Primary label: Depression\nSecondary labels: Obesity, Insomnia", "depression|obesity|insomnia"),
    ("Advanced.lung.disease, Chronic.pain", "advanced.lung.disease|chronic.pain"),
    ("Depression\n\nNote: 45-year-old man with COPD.\nLabels: COPD", "depression"),
    ("Depression, since the patient takes sertraline; Obesity, since the BMI is 34.", "depression|obesity"),
    ("Depression because the patient takes sertraline and reports low mood", "depression"),
    ("Initially I considered dementia, but the final labels are Depression, Obesity.", "depression|obesity"),
    ("Depression (PHQ-9 = 18, moderately severe), Obesity (BMI 34, class I)", "depression|obesity"),
    ("1. Depression\n   - On sertraline 100 mg\n   - PHQ-9 of 18\n2. Obesity\n   - BMI 34", "depression|obesity"),
    ("### Present\n- Depression\n- Obesity\n\n### Absent\n- Dementia\n- Alcohol abuse", "depression|obesity"),
    ("Present: Depression, Obesity\nAbsent: Dementia", "depression|obesity"),
    ("Depression [1], Obesity [2]", "depression|obesity"),
    ("“Depression”、“Obesity”", "depression|obesity"),
    ("Depression=1; Obesity=1; Dementia=0", "depression|obesity"),
    ("anxiety and depression, asthma", "anxiety and depression|asthma", "anxiety and depression|asthma"),
    (
        "The labels are anxiety and depression and asthma.",
        "anxiety and depression|asthma",
        "anxiety and depression|asthma",
    ),
    ("Anxiety, depression, asthma", "anxiety|depression|asthma", "anxiety and depression|asthma"),
    ("nausea/vomiting, fever", "nausea/vomiting|fever", "nausea/vomiting|fever"),
    ("The answer is: Obesity", "obesity"),
    ("\\boxed{Depression, Obesity}", "depression|obesity"),
    ("$\\boxed{\\text{Depression}}$", "depression"),
    ("{Depression, Obesity}", "depression|obesity"),
    ("Answer: [Depression, Obesity]", "depression|obesity"),
    ("Not depression. Obesity.", "obesity"),
    ("**Present**\n- Depression\n- Obesity\n\n**Not present**\n- Dementia", "depression|obesity"),
    ("There is no evidence of dementia. Labels: Depression, Obesity", "depression|obesity"),
    ("Depression, Obesity. No evidence of dementia or stroke.", "depression|obesity"),
    ("Labels not present: Dementia\nLabels present: Depression, Obesity", "depression|obesity"),
    ("Labels present: Depression, Obesity\nLabels not present: Dementia", "depression|obesity"),
    ("Depression because of PHQ-9 18; Obesity due to BMI 34", "depression|obesity"),
    ("Probable depression, obesity", "depression|obesity"),
    ("I first thought of dementia, but the correct labels are Depression and Obesity.", "depression|obesity"),
    ("Depression ✅\nObesity ✅\nDementia ❌", "depression|obesity"),
    ("Depression\nObesity\n\nText: A man with COPD.\nLabels: COPD", "depression|obesity"),
    ("Depression, Obesity\n\nQuestion: Which are absent?\nAnswer: Dementia", "depression|obesity"),
    ("Note: the patient has low mood.\nLabels: Depression", "depression"),
    ("Depression. Consider screening for suicide risk.", "depression"),
    ("Rejected labels: Dementia\nFinal labels: Depression", "depression"),
)
"""Completion, labels, and other labels that are never divided, with bars between them."""
QUERIES: tuple[tuple[str, str | None], ...] = (
    (
        "```sql\nSELECT COUNT(*) FROM patients WHERE gender = 'F';\n```",
        "SELECT COUNT(*) FROM patients WHERE gender = 'F'",
    ),
    (
        "### Reasoning\nWe need the `admissions` table. SELECT the rows where the year is 2104.\n\n### Query\n```sql\nSELECT COUNT(DISTINCT subject_id)\nFROM admissions\nWHERE strftime('%Y', admittime) = '2104'\n```\n\n### Explanation\n- `strftime` extracts the year.",
        "SELECT COUNT(DISTINCT subject_id) FROM admissions WHERE strftime('%Y', admittime) = '2104'",
    ),
    (
        "First attempt:\n```sql\nSELECT * FROM lab\n```\nThis isn't filtered. Corrected:\n```sql\nSELECT * FROM lab WHERE patientunitstayid = 141168\n```",
        "SELECT * FROM lab WHERE patientunitstayid = 141168",
    ),
    (
        "```sql\nSELECT 1 FROM lab\n```\nAlternatively, with a CTE:\n```sql\nWITH t AS (SELECT 1 FROM lab) SELECT * FROM t\n```",
        "WITH t AS (SELECT 1 FROM lab) SELECT * FROM t",
    ),
    ("<sql>SELECT 1 FROM patients</sql>", "SELECT 1 FROM patients"),
    ("<sql>\n```sql\nSELECT 1 FROM patients\n```\n</sql>", "SELECT 1 FROM patients"),
    (
        '{"sql": "SELECT name FROM patients WHERE name = \\"Ann\\"", "confidence": 0.8}',
        'SELECT name FROM patients WHERE name = "Ann"',
    ),
    ('{"reasoning": "select the table", "query": "SELECT 1 FROM t"}', "SELECT 1 FROM t"),
    ('{"query": null, "reason": "Schema lacks addresses"}', None),
    ('{"answerable": false, "sql": ""}', None),
    ("null", None),
    ("NULL", None),
    ("", None),
    ("```sql\nnull\n```", None),
    ("```sql\n-- Not answerable\n```", None),
    ("SELECT NULL;", "SELECT NULL"),
    ("The question cannot be answered with the given schema, since there is no table of staff.", None),
    (
        "This question is unanswerable: nothing in the database stores the doctors' phone numbers. If it did, one could write SELECT phone FROM doctors;",
        None,
    ),
    ("I'm sorry, but there's no column for room color.", None),
    ("Unfortunately, the database does not contain information about insurance premiums.\n\n```sql\nnull\n```", None),
    (
        "SQLite query:\nSELECT a FROM b WHERE c = 'it''s; fine';\nThis returns a.",
        "SELECT a FROM b WHERE c = 'it''s; fine'",
    ),
    (
        "SELECT a FROM b LIMIT 1;\n\nQuestion: How many patients?\nSELECT COUNT(*) FROM patients;",
        "SELECT a FROM b LIMIT 1",
    ),
    ("select a from b where c = 1\n\nThis query selects a from b where c is 1.", "select a from b where c = 1"),
    ("<think>Let me select the table. SELECT x FROM y ... hmm</think>\nSELECT a FROM b", "SELECT a FROM b"),
    ("Sure! Here's the SQL: `SELECT a FROM b`. It returns a.", "SELECT a FROM b"),
    ("The query is:\n\n    SELECT a\n    FROM b\n    WHERE c > 3;\n", "SELECT a FROM b WHERE c > 3"),
    (
        "WITH t AS (\n  SELECT a FROM b\n)\nSELECT * FROM t ORDER BY a DESC LIMIT 5;\n-- returns the top five",
        "WITH t AS ( SELECT a FROM b ) SELECT * FROM t ORDER BY a DESC LIMIT 5",
    ),
    ("SELECT a -- the value; may be null\nFROM b;", "SELECT a -- the value; may be null FROM b"),
    ("sql\nSELECT a FROM b", "SELECT a FROM b"),
    ("SQL: SELECT a FROM b;", "SELECT a FROM b"),
    ("SQLQuery: SELECT a FROM b\nSQLResult: 3\nAnswer: 3", "SELECT a FROM b"),
    ("```sqlite\nSELECT a FROM b\n```", "SELECT a FROM b"),
    ("```\nSELECT a FROM b\n", "SELECT a FROM b"),
    ('```python\nimport sqlite3\ncur.execute("SELECT a FROM b")\n```', "SELECT a FROM b"),
    ("**SQL Query**\n\nSELECT a FROM b WHERE c = 'x'\n\n**Explanation**\nSelects a.", "SELECT a FROM b WHERE c = 'x'"),
    ("Final answer: SELECT a FROM b;", "SELECT a FROM b"),
    ("(SELECT a FROM b)", "SELECT a FROM b"),
    ("SELECT a FROM b;SELECT a FROM b;", "SELECT a FROM b"),
    ("Aquí está la consulta:\n```sql\nSELECT a FROM b;\n```", "SELECT a FROM b"),
    ("To answer this we would need a table that isn't here, so the result is null.", None),
    ("```sql\nSELECT a FROM b\n```\n\nNote: if no rows match, the result is null.", "SELECT a FROM b"),
    (
        "Note that the question can't be answered exactly, but the closest is:\n```sql\nSELECT a FROM b\n```",
        "SELECT a FROM b",
    ),
    ("Assuming this can be answered, SELECT a FROM b", "SELECT a FROM b"),
    ("\\boxed{SELECT a FROM b}", "SELECT a FROM b"),
    ("<answer>SELECT a FROM b</answer>", "SELECT a FROM b"),
    (
        "<|channel|>analysis<|message|>We need SELECT.<|end|><|start|>assistant<|channel|>final<|message|>SELECT a FROM b",
        "SELECT a FROM b",
    ),
    (
        "```sql\nSELECT a FROM b\n```\nIf you want the count instead:\n```sql\nSELECT COUNT(a) FROM b\n```",
        "SELECT a FROM b",
    ),
    ("```sql\nSELECT a FROM b\n```\nSample output:\n```\n| a |\n| 1 |\n```", "SELECT a FROM b"),
    ("```sql\nCREATE INDEX i ON b(a);\n```\nThen run\n```sql\nSELECT a FROM b;\n```", "SELECT a FROM b"),
    ("The query can't be null because the table exists: SELECT a FROM b;", "SELECT a FROM b"),
    ("SELECT a FROM b WHERE c < 5 AND d = '<sql>'", "SELECT a FROM b WHERE c < 5 AND d = '<sql>'"),
    (
        "```sql\nSELECT a FROM b\n```\n\nIf you'd like only distinct values:\n\n```sql\nSELECT DISTINCT a FROM b\n```",
        "SELECT a FROM b",
    ),
    ("If you want the number of patients, use:\n```sql\nSELECT COUNT(*) FROM p\n```", "SELECT COUNT(*) FROM p"),
    ("There's no insurance column, therefore the answer is null.", None),
    ("The output should be null.", None),
    ("SELECT a FROM b WHERE c = 1; -- the result is null if none", "SELECT a FROM b WHERE c = 1"),
)
"""Completion, and the query with single spaces."""


def read(form: Form) -> Any:
    """Apply the reader that a form is for."""
    text, (kind, more) = form.text, form.context
    if kind == "judgment":
        judgment = read_error_judgment(text, NOTE)
        return None if judgment.error is None else tuple(judgment)
    if kind == "codes":
        return read_codes(text) or None
    if kind == "labels":
        return read_labels(text, more)
    if kind == "sql":
        query = find_query(text)
        return None if query is None else " ".join(query.split()).strip(" ;")
    reader = {"number": read_number, "date": read_date, "weeks": read_weeks_and_days}[kind]
    return reader(text, None if more is None else quantity_names(more))


def _forms() -> Iterator[Form]:
    for text, number, calculator in NUMBERS:
        yield Form(text=text, expected=number, context=("number", calculator), group="number")
    for text, day, calculator in DATES:
        expected = None if day is None else date.fromisoformat(day)
        yield Form(text=text, expected=expected, context=("date", calculator), group="date")
    for text, age in WEEKS:
        yield Form(text=text, expected=age, context=("weeks", 69), group="weeks")
    for text, judgment in JUDGMENTS:
        yield Form(text=text, expected=judgment, context=("judgment", None), group="judgment")
    for text, codes in CODES:
        yield Form(text=text, expected=frozenset(codes.split()), context=("codes", None), group="codes")
    for text, labels, *others in LABELS:
        expected_labels = frozenset(filter(None, labels.split("|")))
        known = expected_labels.union(*(other.split("|") for other in others))
        yield Form(text=text, expected=expected_labels, context=("labels", known), group="labels")
    for text, query in QUERIES:
        yield Form(text=text, expected=query, context=("sql", None), group="sql")


FORMS = tuple(_forms())
